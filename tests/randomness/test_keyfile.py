"""The key file: never readable by others, never mistaken for something else, gone when destroyed."""

import os
import stat
from pathlib import Path

import pytest

from discreet.core.errors import InputError
from discreet.randomness import destroy_key, load_key, new_run_key, save_key


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.key"


def test_new_keys_are_fresh() -> None:
    keys = {new_run_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {32}


def test_a_saved_key_is_loaded(path: Path) -> None:
    key = new_run_key()
    save_key(path, key)
    assert load_key(path) == key
    assert load_key(str(path)) == key


def test_the_file_is_the_owners_alone_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        save_key(path, new_run_key())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_is_created_with_its_mode(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Narrowing the mode after creation would leave a moment in which others can open the file.
    calls: list[tuple[int, int]] = []
    system_open = os.open

    def spy(target: Path, flags: int, mode: int = 0o777) -> int:
        calls.append((flags, mode))
        return system_open(target, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", spy)
        save_key(path, new_run_key())
    flags, mode = calls[0]
    assert flags & os.O_CREAT
    assert flags & os.O_EXCL
    assert mode == 0o600


def test_an_existing_file_or_link_is_never_overwritten(path: Path, tmp_path: Path) -> None:
    save_key(path, bytes(32))
    with pytest.raises(InputError, match="already exists"):
        save_key(path, new_run_key())
    assert load_key(path) == bytes(32)

    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="already exists"):
        save_key(link, new_run_key())
    assert not (tmp_path / "elsewhere").exists()


def test_a_missing_folder_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot create"):
        save_key(tmp_path / "nowhere" / "run.key", new_run_key())


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), bytearray(32), "k" * 32])
def test_only_32_bytes_are_a_key(path: Path, key: object) -> None:
    with pytest.raises(InputError, match="32 bytes"):
        save_key(path, key)
    assert not path.exists()


def test_a_failed_write_leaves_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="disk full"):
        save_key(path, new_run_key())
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o700, 0o644, 0o666])
def test_wider_permissions_are_refused(path: Path, mode: int) -> None:
    save_key(path, new_run_key())
    path.chmod(mode)
    with pytest.raises(InputError, match=f"{mode:04o}"):
        load_key(path)


def test_narrower_permissions_are_fine(path: Path) -> None:
    save_key(path, bytes(32))
    path.chmod(0o400)
    assert load_key(path) == bytes(32)


@pytest.mark.parametrize("length", [0, 31, 33, 4096])
def test_a_wrong_length_is_refused_without_showing_content(path: Path, length: int) -> None:
    path.write_bytes(b"s" * length)
    path.chmod(0o600)
    with pytest.raises(InputError, match="exactly 32 bytes") as caught:
        load_key(path)
    assert "ssss" not in str(caught.value)


def test_what_is_not_a_regular_file_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open"):
        load_key(path)
    with pytest.raises(InputError, match="not a regular file"):
        load_key(tmp_path)

    save_key(path, new_run_key())
    link, fifo = tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(path)
    os.mkfifo(fifo, 0o600)
    for wrong in (link, fifo):
        for use in (load_key, destroy_key):
            with pytest.raises(InputError):
                use(wrong)
    assert len(load_key(path)) == 32


def test_destroying_overwrites_and_removes(path: Path, tmp_path: Path) -> None:
    save_key(path, b"k" * 32)
    other_name = tmp_path / "other"
    os.link(path, other_name)  # shows the content after the name is gone
    destroy_key(path)
    assert not path.exists()
    assert other_name.read_bytes() == bytes(32)


def test_destroying_a_missing_file_is_fine(path: Path) -> None:
    destroy_key(path)
    destroy_key(str(path))


def test_destroying_a_half_written_key_is_fine(path: Path) -> None:
    path.write_bytes(b"half")
    destroy_key(path)
    assert not path.exists()


def test_what_is_too_long_to_be_a_key_is_left_alone(path: Path) -> None:
    path.write_bytes(b"a" * 33)
    with pytest.raises(InputError, match="not a key file"):
        destroy_key(path)
    assert path.read_bytes() == b"a" * 33
