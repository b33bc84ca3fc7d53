"""The site is built without a dead link, sorts every page, and describes every public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import griffe
import pytest

import discreet

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import site_pages  # noqa: E402
import site_reference  # noqa: E402

PACKAGES = [room for rooms in site_reference.ROOMS.values() for room in rooms]
APART = {"cli", "core", "distributed", "integrations", "jobs"}
"""Rooms without names of their own to import: commands, what all share, and folders of optional modules."""


def test_every_package_that_exports_names_has_a_page() -> None:
    folder = Path(discreet.__file__).parent
    rooms = {path.name for path in folder.iterdir() if (path / "__init__.py").is_file()}
    assert rooms - APART <= set(PACKAGES)
    assert len(PACKAGES) == len(set(PACKAGES))


def test_every_public_name_says_what_it_is() -> None:
    """Constants do so in the line below them. The site reads the source and runs nothing, and so does this test."""
    source = griffe.load("discreet", search_paths=[ROOT / "src"])
    silent = [
        f"{room}.{name}"
        for room in ["", *PACKAGES]
        for name in (site_reference.exported(room) if room else discreet.__all__)
        if not (found := source[f"{room}.{name}".lstrip(".")].docstring) or not found.value.strip()
    ]
    assert silent == []


def test_a_link_out_of_the_folder_becomes_one_on_the_site() -> None:
    page = ROOT / "docs" / "methods" / "agd.md"
    text = "[home](../../README.md#install) [all](../README.md) `[no](link)` [it](../../src/discreet/__init__.py) [x](a://b)"
    assert site_pages.with_links(text, page) == (
        "[home](../index.md#install) [all](../all-pages.md) `[no](link)` it (`src/discreet/__init__.py`) [x](a://b)"
    )


def test_the_site_has_no_dead_link_and_every_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`strict` fails at a dead link or anchor, and at a page that the list of pages leaves out."""
    monkeypatch.setattr(site_pages, "BUILD", tmp_path)
    settings = (ROOT / "mkdocs.yml").read_text().replace("paths: [src]", f"paths: [{ROOT / 'src'}]")
    (tmp_path / "base.yml").write_text(settings)
    site_pages.main()
    config = tmp_path / "mkdocs.yml"
    config.write_text(config.read_text().replace("../mkdocs.yml", "base.yml"))
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(config)]
    done = subprocess.run(
        command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for room in ["", *PACKAGES]:
        named = discreet.__all__ if not room else site_reference.exported(room)
        page = (tmp_path / "site" / "reference" / (room or "discreet") / "index.html").read_text()
        anchors = set(re.findall(r'id="(discreet[\w.]*)"', page))
        prefix = f"discreet.{room}".rstrip(".")
        assert {f"{prefix}.{name}" for name in named if not room or name not in discreet.__all__} <= anchors
    assert not re.search(r'(src|href)="(https?:)?//[^"]*\.(js|css|woff2?)', (tmp_path / "site/index.html").read_text())
