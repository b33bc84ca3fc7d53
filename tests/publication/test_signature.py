"""Signatures: by whom, of what, and of nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from forging import claim, edit
from promises import published_folder

from discreet import InputError, verify
from discreet.certificate import signature
from discreet.certificate.canonical import canonical, digest
from discreet.certificate.files import FILES
from discreet.cli.app import run


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders, and a key beside the first."""
    torch.set_num_threads(1)
    first, second = (published_folder(tmp_path_factory.mktemp(name)) for name in ("first", "second"))
    return first, second


@pytest.fixture
def signed(originals: tuple[Path, Path], tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(originals[0], tmp_path / "signed"))
    signature.new_key(tmp_path / "key")
    signature.sign(folder, tmp_path / "key")
    return folder


def why(folder: Path, key: str | None = None) -> str | None:
    """What the verifier has against the signature, if anything."""
    checks = {one.name: one for one in verify(folder, key).checks}
    return None if checks["signature"].passed else checks["signature"].detail


def test_a_private_key_goes_if_the_public_one_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text("another's")
    with pytest.raises(InputError, match=r"key\.pub exists already"):
        signature.new_key(tmp_path / "key")
    assert [path.name for path in tmp_path.iterdir()] == ["key.pub"]


def test_from_a_new_key_to_a_verified_signature(
    originals: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, key = Path(shutil.copytree(originals[0], tmp_path / "out")), tmp_path / "key"
    assert run(["sign", str(folder), "--key", str(key), "--new-key"]) == 0
    public = capsys.readouterr().out.split()[-1]
    assert (key.stat().st_mode & 0o777, len(public)) == (0o600, 64)
    for given in (public, f"{key}.pub"):
        assert run(["verify", str(folder), "--key", given]) == 0
    assert "ACCEPTED" in capsys.readouterr().out
    before = (folder / "signature.json").read_bytes()
    assert run(["sign", str(folder), "--key", str(key)]) == 0  # Ed25519 is deterministic
    assert (folder / "signature.json").read_bytes() == before
    assert run(["sign", str(folder), "--key", str(key), "--new-key"]) == 2
    assert "never overwritten" in capsys.readouterr().err


def test_the_statement_is_signed_as_documented(signed: Path, tmp_path: Path) -> None:
    """By hand: the canonical form of signature.json without its signature, over canonical certificate and bytes."""
    stated = json.loads((signed / "signature.json").read_text())
    facts = json.loads((signed / "certificate.json").read_text())
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    assert stated["certificate"] == digest(text.encode())
    assert set(stated["files"]) == set(FILES) - {"certificate.json"}
    assert all(stated["files"][name] == digest((signed / name).read_bytes()) for name in stated["files"])
    key = load_pem_private_key((tmp_path / "key").read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    made = stated.pop("signature")
    assert key.sign(json.dumps(stated, sort_keys=True, separators=(",", ":")).encode()).hex() == made


def flipped(signed: Path) -> None:
    stated = json.loads((signed / "signature.json").read_text())
    stated["signature"] = f"{int(stated['signature'][:2], 16) ^ 1:02x}" + stated["signature"][2:]
    (signed / "signature.json").write_text(json.dumps(stated))


def by_another_key(signed: Path) -> None:
    stated = json.loads((signed / "signature.json").read_text())
    stated["public_key"] = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    (signed / "signature.json").write_text(json.dumps(stated))


def appended(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes() + b"\n")


def restated(field: str, value: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        stated = json.loads((folder / "signature.json").read_text()) | {field: value}
        (folder / "signature.json").write_text(json.dumps(stated))

    return change


FORGERIES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a byte of the signature": ("not by the key", flipped),
    "another key named": ("not by the key", by_another_key),
    "plan.yaml edited": ("another folder", appended("plan.yaml")),
    "report edited": ("another folder", appended("report.html")),
    "model description edited": ("another folder", appended("model.json")),
    "claim edited": ("another folder", edit(claim("delta", 2e-5))),
    "digest of the certificate edited": ("another folder", restated("certificate", "0" * 64)),
    "a file left out": ("another folder", restated("files", {})),
    "another algorithm": ("not known", restated("algorithm", "none")),
    "a field more": ("fields", restated("note", "trust me")),
    "no hexadecimal key": ("not by the key", restated("public_key", "zz")),
    "no JSON": ("strict JSON", lambda folder: (folder / "signature.json").write_text("{")),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_signature_is_rejected(signed: Path, forgery: str) -> None:
    message, change = FORGERIES[forgery]
    assert why(signed) is None
    change(signed)
    assert message in (why(signed) or "")
    assert not verify(signed).accepted


def test_a_signature_replayed_onto_another_folder_is_rejected(signed: Path, originals: tuple[Path, Path]) -> None:
    other = Path(shutil.copytree(originals[1], signed.parent / "other"))
    assert verify(other).accepted
    shutil.copy(signed / "signature.json", other / "signature.json")
    assert "another folder" in (why(other) or "")


def test_layout_of_the_certificate_is_not_signed_but_its_content_is(signed: Path) -> None:
    facts = json.loads((signed / "certificate.json").read_text())
    (signed / "certificate.json").write_bytes(canonical(facts))
    assert why(signed) is None


def test_who_signed_is_asked_with_a_key(signed: Path, tmp_path: Path) -> None:
    signature.new_key(tmp_path / "other")
    assert why(signed, str(tmp_path / "key.pub")) is None
    assert "another key" in (why(signed, str(tmp_path / "other.pub")) or "")
    said = "REJECTED: the certificate supports its claim, but nothing shows who vouches for it: signed by "
    assert verify(signed, str(tmp_path / "other.pub")).summary.startswith(said)
    (signed / "signature.json").unlink()
    assert why(signed) is None
    assert "not signed" in (why(signed, str(tmp_path / "key.pub")) or "")


def test_a_rejected_folder_is_not_signed(signed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(claim("epsilon", 0.1))(signed)
    assert run(["sign", str(signed), "--key", str(tmp_path / "key")]) == 1
    assert "rejected" in capsys.readouterr().err


def test_keys_that_are_none_are_refused(signed: Path, tmp_path: Path) -> None:
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(InputError, match="others may read"):
        signature.sign(signed, tmp_path / "key")
    (tmp_path / "text").write_text("no key")
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(InputError, match="holds no private key"):
        signature.sign(signed, tmp_path / "text")
    for given in ("text", "nowhere", "ab" * 31):
        with pytest.raises(InputError):
            signature.public_key(str(tmp_path / given))
