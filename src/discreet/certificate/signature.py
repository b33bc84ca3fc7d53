"""Ed25519 signatures of published folders: who vouches for a certificate and all files beside it.

The signed message is the canonical form of signature.json without its signature: the digest of the canonical
certificate and the digests of all other files. So a signature of one folder is invalid for any other.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.certificate.canonical import canonical, digest, strict_json
from discreet.certificate.files import CERTIFICATE, MODEL, hashed, read
from discreet.core.disk import create_durably, gone_if_it_fails, wider_than_owner, write_durably
from discreet.core.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NAME = "signature.json"
FORMAT = "discreet-signature/1"

_FIELDS = {"format", "algorithm", "public_key", "certificate", "files", "signature"}
_KEY = re.compile("[0-9a-f]{64}")


def new_key(path: Path) -> str:
    """Write a new private key to `path` (mode 0600) and the public one beside it (.pub); return the public one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _create(path, private, 0o600)
    with gone_if_it_fails(path):
        _create(path.with_name(path.name + ".pub"), public, 0o644)
    return _raw(key)


def sign(folder: Path, key_file: Path) -> str:
    """Sign a folder with the private key in `key_file`, in place of an earlier signature; return the public key."""
    key = _private_key(key_file)
    statement = {"format": FORMAT, "algorithm": "Ed25519", "public_key": _raw(key)} | _digests(folder)
    signed = statement | {"signature": key.sign(canonical(statement)).hex()}
    try:
        write_durably(folder / NAME, canonical(signed) + b"\n")
    except OSError as error:
        raise InputError(f"cannot write {folder / NAME}: {error.strerror}") from None
    return _raw(key)


def check_signature(folder: Path, wanted: str | None = None) -> tuple[bool, str]:
    """Check that the signature, if there is one, is valid for this folder; with `wanted`, that it is by that key."""
    if not os.path.lexists(folder / NAME):
        return wanted is None, "not signed" if wanted is None else "not signed, although a signature is asked for"
    stated = strict_json(read(folder / NAME), NAME)
    if not isinstance(stated, dict) or set(stated) != _FIELDS:
        return False, f"{NAME} needs exactly the fields {sorted(_FIELDS)}"
    if (stated["format"], stated["algorithm"]) != (FORMAT, "Ed25519"):
        return False, f"the signature is of a kind that is not known here; known: {FORMAT}, Ed25519"
    if {name: stated[name] for name in ("certificate", "files")} != _digests(folder):
        return False, "the signature is of another folder: certificate or files differ from what was signed"
    if not _valid(stated):
        return False, "the signature is not by the key that it names"
    if wanted is None:
        return True, f"signed by {stated['public_key']}; whose key that is, was not asked (--key)"
    return stated["public_key"] == wanted, (
        f"signed by {stated['public_key']}" + ("" if stated["public_key"] == wanted else ", which is another key")
    )


def public_key(given: str) -> str:
    """A public key from 64 hexadecimal digits, or from a .pub file, as hexadecimal digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if _KEY.fullmatch(given.lower()):
        return given.lower()
    try:
        key = load_pem_public_key(Path(given).read_bytes())
    except OSError as error:
        raise InputError(f"cannot read the public key {given}: {error.strerror}; give a .pub file") from None
    except ValueError:
        raise InputError(f"{given} holds no public key; give the .pub file, or its 64 hexadecimal digits") from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"the key in {given} is not an Ed25519 key")
    return key.public_bytes_raw().hex()


def _digests(folder: Path) -> dict[str, Any]:
    certificate = strict_json(read(folder / CERTIFICATE), CERTIFICATE)
    others = sorted([MODEL, *hashed(certificate if isinstance(certificate, dict) else {})])
    return {
        "certificate": digest(canonical(certificate)),
        "files": {name: digest(read(folder / name)) for name in others},
    }


def _valid(stated: dict[str, Any]) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(stated["public_key"]))
        message = canonical({name: value for name, value in stated.items() if name != "signature"})
        key.verify(bytes.fromhex(stated["signature"]), message)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return _KEY.fullmatch(stated["public_key"]) is not None


def _private_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if path.is_file() and wider_than_owner(path.stat().st_mode & 0o077):
        raise InputError(f"others may read the private key {path}; make it yours alone: chmod 600 {path}")
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InputError(f"cannot read the key {path}: {error.strerror}; make one with --new-key") from None
    except (ValueError, TypeError):
        raise InputError(f"{path} holds no private key without a password; make one with --new-key") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"the key in {path} is not an Ed25519 key; make one with --new-key")
    return key


def _raw(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a new file durably, with these permissions from the start; an existing one is never overwritten."""
    try:
        create_durably(path, content, mode)
    except FileExistsError:
        raise InputError(f"{path} exists already; a key is never overwritten, name another file") from None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
