"""The Python blocks of every page in docs/ run, and its pictures and links are there."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks transformers
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_python_blocks_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(code, page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_list_of_pages_has_all_of_them() -> None:
    """Those of single experiments are listed with the results, those of tutorials with them."""
    listed = set(re.findall(r"\]\(([^)#]+\.md)\)", (DOCS / "README.md").read_text()))
    wanted = {
        str(page.relative_to(DOCS)) for folder in ("", "methods", "papers") for page in (DOCS / folder).glob("*.md")
    }
    assert wanted - {"README.md"} <= listed
