"""Files and folders that appear whole, and what is left of those that did not."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from discreet.core.disk import (
    create_durably,
    draft_folder,
    make_folder,
    real,
    whole_folder,
    write_durably,
    write_output,
)
from discreet.core.errors import InputError


def test_every_new_folder_is_named_durably(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[Path] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        forced.append(Path(f"/proc/self/fd/{descriptor}").resolve())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    make_folder(tmp_path / "a" / "b" / "c", 0o700)
    assert forced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert stat.S_IMODE((tmp_path / "a" / "b" / "c").stat().st_mode) == 0o700
    make_folder(tmp_path / "a" / "b" / "c")
    assert len(forced) == 3
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_durably(path, b"old")

    def fails(_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: .*x\.draft"):
        write_durably(path, fails)
    with pytest.raises(FileExistsError):
        create_durably(path, b"new")
    assert path.read_bytes() == b"old"
    with pytest.raises(OSError, match="No space"), draft_folder(tmp_path, "x") as draft:
        write_durably(draft / "half", fails)
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_is_whole_and_goes_through_links_and_to_devices(tmp_path: Path) -> None:
    path, link = tmp_path / "x.csv", tmp_path / "link.csv"
    write_output(path, b"old", replace=False)
    with pytest.raises(InputError, match=r"x\.csv exists already; name another file"):
        write_output(path, b"new", replace=False)

    def half(file: IO[bytes]) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"cannot write .*x\.csv: No space left on device; think"):
        write_output(path, half, replace=True, advice="think")
    assert path.read_bytes() == b"old"
    link.symlink_to(path)
    write_output(link, lambda file: file.write(b"new"), replace=True)
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    write_output(Path("/dev/null"), b"new", replace=True)
    assert Path("/dev/null").is_char_device()
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_a_whole_folder_takes_the_place_of_an_empty_one(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    for _ in range(2):
        with whole_folder(target) as draft:
            (draft / "file").touch()
            assert not (target / "file").exists()
        assert [path.name for path in target.iterdir()] == ["file"]
        (target / "file").unlink()


def test_drafts_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from discreet.core.disk import draft_folder\n"
        f"with draft_folder(Path({str(tmp_path)!r}), 'model') as draft:\n"
        "    (draft / 'half').touch(); print(draft, flush=True); sys.stdin.read(1)\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    living, dead = (Path(one.stdout.readline().strip()) for one in started if one.stdout)
    started[1].kill()
    started[1].communicate()
    assert dead.exists()
    with draft_folder(tmp_path, "model") as draft:
        assert (living / "half").exists()
        assert not dead.exists()
        assert draft not in (living, dead)
        draft.rename(tmp_path / "model")
    started[0].communicate("x")
    assert {path.name for path in tmp_path.iterdir()} == {"model", living.name}


def test_a_name_of_255_bytes_has_a_draft_folder(tmp_path: Path) -> None:
    for name in ("n" * 255, "\N{GRINNING FACE}" * 63):
        with draft_folder(tmp_path, name) as draft:
            draft.rename(tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_link_to_itself_is_a_path_like_any_other(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert real(loop) == loop
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert real(tmp_path / "link") == tmp_path / "file"
