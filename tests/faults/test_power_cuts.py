"""A power cut at any moment of a run: it goes on, or was not begun, and no half folder is published.

Order on the disk of a run: its folder and key; its job; its entry in the ledger; its name (run.json); then the first
charge. A checkpoint or a published folder appears whole, or not at all.
"""

from pathlib import Path

import pytest
from power_cuts import FAST, SEARCH, charged, check, recorded

from discreet import verify
from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.jobs.train import Job


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands run."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_after_every_write_of_a_run_it_goes_on_or_was_not_begun(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with recorded(work, tmp_path / "cuts") as disk:
        assert run(["train", "digits", *FAST, "--out", "model"]) == 0
    seen = [check(cut, 4) for cut in disk.cuts]
    assert len(seen) > 20
    assert (0, False) in seen
    assert (4, False) in seen
    assert (4, True) in seen
    middle = next(cut for cut, (steps, done) in zip(disk.cuts, seen, strict=True) if steps and not done)
    monkeypatch.chdir(middle)
    capsys.readouterr()
    assert run(["train", "--resume", "model.run"]) == 0, capsys.readouterr().err
    assert verify(middle / "model").accepted


def test_the_simulation_finds_a_file_that_was_not_forced(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`job.json` as it was written once: without a sync it is empty after a cut."""
    real = Job._remember

    def carelessly(self: Job) -> None:
        real(self)
        path = self.folder / "job.json"
        other = path.with_name("other")
        other.write_text(path.read_text())
        other.rename(path)

    monkeypatch.setattr(Job, "_remember", carelessly)
    with recorded(work, tmp_path / "cuts") as disk:
        assert run(["train", "digits", *FAST, "--out", "model"]) == 0
    with pytest.raises(InputError, match="not the folder of a run"):
        assert [check(cut, 4) for cut in disk.cuts] == []


def test_after_every_write_of_a_search_there_is_a_whole_model_or_none(tmp_path: Path, work: Path) -> None:
    """A search is charged whole and at once, and cannot go on; its charge is never lost."""
    with recorded(work, tmp_path / "cuts") as disk:
        assert run(["tune", "digits", *SEARCH, *FAST, "--out", "model"]) == 0
    assert len(disk.cuts) > 5
    seen = [(charged(cut), (cut / "model").is_dir()) for cut in disk.cuts]
    assert seen[-1][1]
    for cut, (steps, published) in zip(disk.cuts, seen, strict=True):
        assert steps or not published
        assert not published or verify(cut / "model").accepted


def test_after_every_write_of_a_signature_it_is_whole_or_not_there(tmp_path: Path, work: Path) -> None:
    with recorded(work, tmp_path / "cuts") as disk:
        assert run(["train", "digits", *FAST, "--out", "model"]) == 0
        before = len(disk.cuts)
        assert run(["sign", "model", "--key", "my.key", "--new-key"]) == 0
    signed = []
    for cut in disk.cuts[before:]:
        signature = cut / "model" / "signature.json"
        signed.append(signature.exists())
        assert verify(cut / "model", str(cut / "my.key.pub") if signed[-1] else None).accepted
        if signed[-1]:
            assert (cut / "my.key").read_bytes() == (work / "my.key").read_bytes()
            assert not (cut / "my.key").stat().st_mode & 0o077
    assert signed[-1]
    assert not signed[0]
