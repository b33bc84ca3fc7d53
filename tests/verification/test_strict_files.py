"""Both verifiers read files strictly: plain ones only, none beside them, pages as they are written again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from every_kind import published
from forging import Forge, edit, put, told
from problems import linear
from safetensors.torch import save

from discreet import InputError, load, verify
from discreet.certificate import files, signature
from discreet.cli.app import run

pytestmark = pytest.mark.usefixtures("recomputed_once")


def linked(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")


def piped(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)


def a_folder(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()


def the_zero_device(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")


@pytest.mark.parametrize("name", [*files.HASHED, files.MODEL])
def test_a_file_that_is_gone_is_named_as_one_of_a_published_folder(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(InputError) as caught:
        verify(folder)
    assert str(caught.value) == (
        f"cannot read {folder / name}: No such file or directory; it was published with the model: put it back, or ask "
        "for the folder again"
    )
    (folder / files.CERTIFICATE).unlink()
    with pytest.raises(InputError, match=r"cannot read .*; name a folder that `discreet train` made"):
        verify(folder)


def test_the_working_folder_is_named_by_a_dot(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert verify(Path()).accepted
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match=r"cannot read certificate\.json: .*; name a folder that `discreet train` made"
    ):
        verify(Path())


def test_a_merged_model_is_told_where_its_proof_is(folder: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged"
    merged.mkdir()
    folder.rename(merged / "proof")
    with pytest.raises(InputError, match=r"merged is a merged model; its proof is in .*merged/proof: name that"):
        verify(merged)
    assert verify(merged / "proof").accepted


def test_a_file_in_the_place_of_the_folder_is_told_what_to_name(folder: Path, tmp_path: Path) -> None:
    """An archive as it came by mail, and one file of the folder."""
    archive = Path(shutil.make_archive(str(tmp_path / "mailed"), "zip", folder))
    with pytest.raises(InputError, match=r"mailed.zip is a file, and no .*: unpack an archive first"):
        verify(archive)
    for name in ("certificate.json", "report.html"):
        with pytest.raises(InputError, match=re.escape(f"{name} is one file of a published folder; name the folder, ")):
            verify(folder / name)


@pytest.mark.parametrize("change", [linked, piped, a_folder, the_zero_device])
@pytest.mark.parametrize("name", ["certificate.json", "model.safetensors", "report.html"])
def test_only_plain_files_are_opened(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, change: Callable[[Path, str], None]
) -> None:
    """A pipe would keep its reader waiting for ever: a thread, so that this test ends all the same."""
    change(folder, name)
    found: list[object] = []

    def ask() -> None:
        found.append(told(folder, capsys)[0])
        for reader in (verify, load):
            try:
                reader(folder)
            except InputError as error:
                found.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(60)
    assert found[:1] == [1]
    assert len(found) == 3
    assert all(f"{name} is a" in str(one) and "not a plain file" in str(one) for one in found[1:])


def test_files_that_are_too_large_are_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holes need no room on the disk, and would need it in memory."""
    with (folder / "report.html").open("ab") as file:
        file.truncate(2**27 + 1)
    code, said = told(folder, capsys)
    assert (code, said) == (1, "REJECTED: report.html is too large to be read\n")
    for reader in (verify, load):
        with pytest.raises(InputError, match="at most 134,217,728 are read"):
            reader(folder)
    monkeypatch.setattr(files, "LARGEST_TENSORS", 100)
    with pytest.raises(InputError, match=r"model\.safetensors has .* bytes; at most 100 are read"):
        files.read(folder / "model.safetensors")


def test_a_dangling_signature_is_no_missing_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "signature.json").symlink_to("nowhere")
    assert told(folder, capsys)[0] == 1
    assert not verify(folder).accepted


def test_a_signature_has_no_further_fields(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even signed ones."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from discreet.certificate.canonical import canonical

    key = tmp_path / "key"
    signature.new_key(key)
    signature.sign(folder, key)
    stated = json.loads((folder / "signature.json").read_text())
    stated.pop("signature")
    own = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    stated |= {"note": "epsilon 0.1", "public_key": own.public_key().public_bytes_raw().hex()}
    (folder / "signature.json").write_text(json.dumps(stated | {"signature": own.sign(canonical(stated)).hex()}))
    assert told(folder, capsys)[0] == 1
    assert not verify(folder).accepted


def test_further_files_are_said_and_strict_refuses_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.txt", "b\x1b[2J.pt", "run"):
        (folder / name).write_text("x")
    line = "3 files here are not covered by the certificate ('a.txt', 'b\\x1b[2J.pt', 'run')"
    code, said = told(folder, capsys)
    assert (code, line in said) == (0, True)
    assert told(folder, capsys, "--strict") == (1, f"REJECTED: {line}\n")
    assert run(["verify", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"; {line}")
    assert run(["verify", str(folder), "--strict"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("REJECTED: ")
    for name in ("a.txt", "run"):
        (folder / name).unlink()
    assert "1 file here is not covered" in told(folder, capsys)[1]
    (folder / "b\x1b[2J.pt").unlink()
    assert told(folder, capsys, "--strict")[0] == 0
    assert run(["verify", str(folder), "--strict"]) == 0


def lying(name: str, **software: str) -> Forge:
    """A page that says something else, with its hash in the certificate, perhaps of other software."""

    def forge(folder: Path) -> None:
        content = (folder / name).read_bytes().replace(b"epsilon", b"epsilon 0.1, that is, epsilon")
        (folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        edit(put("files", name, value=digest), put("software", value=lambda old: old | software))(folder)

    return forge


@pytest.mark.parametrize("name", ["report.html", "README.md", "verify.py"])
def test_pages_are_written_again(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A page that lies is rejected; of other software it is said that it was not checked."""
    pages = next(one for one in verify(folder).checks if one.name == "pages")
    assert pages.detail.endswith("what the certificate gives")
    lying(name)(folder)
    found = verify(folder)
    assert [one.name for one in found.checks if not one.passed] == ["pages"]
    assert f"{name}: not what this software writes" in found.summary
    assert verify(folder, pages=False).accepted
    lying(name, numpy="1.0")(folder)
    found = verify(folder)
    assert found.accepted
    assert f"{name}" in found.summary.split("; ")[-1]
    assert "not checked: the certificate names other software than there is here" in found.summary
    code, said = told(folder, capsys)
    assert code == 0
    assert "Not checked: any lower bound, and what model.json, plan.yaml, report.html, README.md, verify.py say" in said


def test_the_plan_for_people_has_no_words_of_its_own(folder: Path) -> None:
    """Comments and fields that are there twice read the same to a parser, and not to people."""
    for change in (lambda old: "# epsilon 0.1\n" + old, lambda old: "delta: 1e-9\n" + old):
        original = (folder / "plan.yaml").read_text()
        content = change(original)
        (folder / "plan.yaml").write_text(content)
        edit(put("files", "plan.yaml", value=hashlib.sha256(content.encode()).hexdigest()))(folder)
        assert [one.name for one in verify(folder).checks if not one.passed] == ["plan"]
        (folder / "plan.yaml").write_text(original)


def test_released_components_are_held_against_the_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = published(tmp_path, "queries")
    assert told(folder, capsys)[0] == 0
    (folder / "released.safetensors").write_bytes(save(linear().state_dict()))
    assert told(folder, capsys) == (1, "REJECTED: released.safetensors is there and not certified, or the reverse\n")
    assert not verify(folder).accepted
