"""The images of a folder: one sub-folder for each class; for predictions, anywhere in the folder.

Links are refused: an image under two names would be two rows, and its person half protected; and a folder that links to
itself has no end. Hidden files are left out. Any other file that is no image is refused, so that nothing is left out
unnoticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from discreet.core.disk import real
from discreet.core.errors import InputError
from discreet.data.tables.images.image_file import ENDINGS

_LEFT_OUT = {"thumbs.db", "desktop.ini", "__macosx"}
_DEEPEST = 32


def classes_in(folder: Path) -> tuple[str, ...]:
    """The names of the sub-folders, in order, also of empty ones. `InputError` if there are not two at least.

    They are published, so declare a class that may have a single image instead of taking it from here.
    """
    names = _sub_folders(folder)
    if len(names) == 1:
        raise InputError(
            f"{folder} has one sub-folder, {names[0]!r}; there must be two classes at least: make a folder for each, "
            "empty if it has no image, or declare them with --classes A,B"
        )
    return names


def labelled(folder: Path, classes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(path from `folder`, class) of every image, in order. `InputError` for a sub-folder that is no declared class.

    A class may have an empty folder or none: whether it has an image is private.
    """
    for name in _sub_folders(folder):
        if name not in classes:
            raise InputError(
                f"{folder / name} is none of the declared classes, which are {', '.join(classes)[:200]}; declare it, "
                "or move it out"
            )
        yield from ((f"{name}/{image}", name) for image in _images(folder / name))


def images_under(folder: Path) -> Iterator[str]:
    """The paths, from `folder`, of all images in it and in its sub-folders, in order."""
    yield from _under(folder, "", _DEEPEST)


def image_in(root: Path, name: str) -> Path:
    """The file that an index names, under the index's folder. `InputError` in a few words if it leads elsewhere."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise InputError("must be a path from the folder of the index to a file under it, with /")
    try:
        found = (root / path).resolve(strict=True)
    except FileNotFoundError:
        raise InputError("is not there") from None
    except (OSError, RuntimeError):
        raise InputError("cannot be followed; put the image itself there, no link") from None
    if found != real(root) / path:
        raise InputError("leads over a link; put the image itself there: under two names it would count twice")
    return found


def _sub_folders(folder: Path) -> tuple[str, ...]:
    entries = list(_entries(folder))
    names = tuple(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    if not names:
        raise InputError(
            f"{folder} has no sub-folders; give a folder with one for each class, or an index file (.csv) with a "
            "column of paths"
        )
    stray = [entry.name for entry in entries if entry.name not in names]
    if stray:
        raise InputError(f"{folder / stray[0]} belongs to no class; move it into a sub-folder, or out of {folder}")
    spaced = [name for name in names if name != name.strip()]
    if spaced:
        raise InputError(f"{folder} has a sub-folder {spaced[0]!r}, with a space at an end; rename it")
    return names


def _under(folder: Path, before: str, deeper: int) -> Iterator[str]:
    if deeper == 0:
        raise InputError(f"{folder} has folders more than {_DEEPEST} deep")
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _under(folder / entry.name, f"{before}{entry.name}/", deeper - 1)
        else:
            yield before + _checked(folder, entry)


def _images(folder: Path) -> Iterator[str]:
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            raise InputError(f"{folder / entry.name} is a folder within a class; put images straight into {folder}")
        yield _checked(folder, entry)


def _checked(folder: Path, entry: os.DirEntry[str]) -> str:
    if not entry.name.lower().endswith(ENDINGS):
        raise InputError(f"{folder / entry.name} is no image by its name ({', '.join(ENDINGS)}); move it out")
    return entry.name


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder by name, without hidden ones."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"cannot read the folder {folder}: {error.strerror}") from None
    for entry in entries:
        if entry.name.startswith(".") or entry.name.lower() in _LEFT_OUT:
            continue
        try:
            entry.name.encode("utf-8")
        except UnicodeEncodeError:
            shown = os.fsencode(entry.name).decode("utf-8", "backslashreplace")
            raise InputError(f"{folder} has a name that is not UTF-8: {shown!r}; rename it") from None
        if entry.is_symlink():
            raise InputError(
                f"{folder / entry.name} is a link; put the image or folder itself there: under two names it would "
                "count twice"
            )
        yield entry
