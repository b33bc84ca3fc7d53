"""Signatures in verify.py: what it says of them; and Ed25519, against published vectors and another implementation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from forging import edit, put, told

from discreet.certificate import signature
from discreet.verification.standalone import verify as reviewer


def test_ed25519_against_rfc_8032_and_another_implementation() -> None:
    """RFC 8032, section 7.1, tests 1 and 3; then `cryptography` on random messages, right and wrong."""
    for public, message, made in (
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f059"
            "5bbe24655141438e7a100b",
        ),
        (
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e971"
            "6ed28dc027beceea1ec40a",
        ),
    ):
        assert reviewer.ed25519(*map(bytes.fromhex, (public, message, made)))
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    for number in range(3):
        message = bytes([number]) * 40
        made, public = key.sign(message), key.public_key().public_bytes_raw()
        assert reviewer.ed25519(public, message, made)
        assert not reviewer.ed25519(public, message + b".", made)
        bit = bytes([made[40] ^ 1])
        assert not reviewer.ed25519(public, message, made[:40] + bit + made[41:])
        larger = int.from_bytes(made[32:], "little") + 2**252 + 27742317777372353535851937790883648493
        assert not reviewer.ed25519(public, message, made[:32] + larger.to_bytes(32, "little"))  # malleable otherwise


def test_signatures(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    public = signature.new_key(tmp_path / "key")
    assert "not signed" in told(folder, capsys, "--key", public)[1]
    signature.sign(folder, tmp_path / "key")
    code, said = told(folder, capsys, "--key", public)
    assert code == 0
    assert f"signed by {public}." in said
    assert told(folder, capsys)[0] == 0
    assert f"signed by {public}." in told(folder, capsys, "--key", public.upper(), "--strict")[1]
    assert "somebody else" in told(folder, capsys, "--key", "00" * 32)[1]
    stated = json.loads((folder / "signature.json").read_text())
    wrong = stated | {"signature": stated["signature"][:-2] + f"{int(stated['signature'][-2:], 16) ^ 1:02x}"}
    (folder / "signature.json").write_text(json.dumps(wrong))
    assert "REJECTED" in told(folder, capsys)[1]
    (folder / "signature.json").write_text(json.dumps(stated))
    edit(put("software", "torch", value="0"))(folder)
    assert "another certificate" in told(folder, capsys)[1]
