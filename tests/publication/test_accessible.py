"""The report can be read by everybody: structure, names and contrast, as WCAG 2.2 (level AA) wants them.

Against every kind of run. What a browser alone can tell (reflow, focus) is not looked at here.
"""

from __future__ import annotations

import re
from importlib import resources
from itertools import pairwise

import pytest
from reports import Walk, facts_of, small_plan

from discreet.certificate.model_spec import ModelSpec, Named
from discreet.core.adjacency import Adjacency
from discreet.plan import NoSampling
from discreet.publication.pages.report import report_page

TEXT, GRAPHICS = 4.5, 3.0
"""The least contrast of text (WCAG 1.4.3) and of what graphics need to be understood (1.4.11)."""

STYLE = resources.files("discreet.publication.pages").joinpath("templates/report.css").read_text("utf-8")


def schemes() -> dict[str, dict[str, str]]:
    """The colours by name: light as they are declared first, dark as they are declared over them."""
    light, dark = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    )
    return {"light": light, "dark": light | dark}


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_formula() -> None:
    """Black on white is 21; #767676 is the lightest grey that WCAG lets be text on white (4.54)."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(scheme: str) -> None:
    colours = schemes()[scheme]
    assert set(colours) == {"paper", "panel", "ink", "muted", "rule", "accent"}
    for ground in ("paper", "panel"):
        for text in ("ink", "muted", "accent"):
            assert contrast(colours[text], colours[ground]) >= TEXT, (text, ground)
    assert contrast(colours["accent"], colours["paper"]) >= GRAPHICS


def test_every_colour_is_one_of_these() -> None:
    outside = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgb|hsl|opacity", outside)


def pages() -> dict[str, str]:
    """Plans of three kinds, with a model of the library's own and of somebody else's."""
    replaced = small_plan(adjacency="zero_out", batch=1437, noise_multiplier=60.0)
    replaced = replaced.model_copy(update={"sampling": NoSampling(), "adjacency": Adjacency.REPLACE_ONE})
    weak, person = small_plan(noise_multiplier=0.3), small_plan(unit="user", rows_per_unit=3)
    bought = {"step": 9, "metric": "holdout_accuracy", "value": 0.9, "standard_deviation": 0.01}
    table = ModelSpec(model=Named("tabular"), inputs=(3,), table={}, outputs="classes", data="t")
    return {
        "people": report_page(facts_of(person) | {"bought_metrics": [bought]}, person, table),
        "replace one": report_page(facts_of(replaced, 0), replaced, ModelSpec(module="mine.Net")),
        "weak": report_page(facts_of(weak, 1), weak),
    }


@pytest.fixture(scope="module")
def walks() -> dict[str, tuple[str, Walk]]:
    return {name: (page, Walk(page)) for name, page in pages().items()}


def test_language_title_landmark_and_zoom(walks: dict[str, tuple[str, Walk]]) -> None:
    for page, walk in walks.values():
        assert walk.all("html")[0]["lang"] == "en"
        assert re.search(r"<title>[^<]{20,}</title>", page)
        assert len(walk.all("main")) == len(walk.all("h1")) == 1
        viewport = next(one for one in walk.all("meta") if one.get("name") == "viewport")["content"] or ""
        assert "maximum-scale" not in viewport
        assert "user-scalable" not in viewport


def test_headings_are_in_order_and_name_their_sections(walks: dict[str, tuple[str, Walk]]) -> None:
    for _, walk in walks.values():
        levels = [int(tag[1]) for tag, _ in walk.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        named = {attributes.get("id") for tag, attributes in walk.tags if tag == "h2"}
        assert {section["aria-labelledby"] for section in walk.all("section")} == named


def test_tables_have_headers(walks: dict[str, tuple[str, Walk]]) -> None:
    for page, _ in walks.values():
        tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
        assert len(tables) >= 4
        for table in tables:
            rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
            assert all(re.search(r'<th scope="(row|col)"', row) for row in rows)
            width = {row.count("<th") + row.count("<td") for row in rows}
            assert len(width) == 1


def test_pictures_have_names_and_say_what_they_show(walks: dict[str, tuple[str, Walk]]) -> None:
    for page, walk in walks.values():
        drawings = walk.all("svg")
        assert len(drawings) >= 3
        assert len(walk.all("figcaption")) == len(drawings)
        for drawing in drawings:
            assert drawing["role"] == "img"
            title, about = (drawing["aria-labelledby"] or "").split()
            assert re.search(rf'<title id="{title}">[^<]{{10,}}</title>', page)
            assert re.search(rf'<desc id="{about}">[^<]*\d[^<]*</desc>', page)  # a figure: what the curve says


def test_links_and_summaries_have_text_and_what_scrolls_takes_the_focus(walks: dict[str, tuple[str, Walk]]) -> None:
    for page, walk in walks.values():
        assert all(text.strip() for text in re.findall(r"<(?:a|summary)\b[^>]*>(.*?)</", page, re.DOTALL))
        for region in (one for one in walk.all("div") if one.get("class") == "scroll"):
            assert region.get("tabindex") == "0"
            assert region["role"] == "region"
            assert region["aria-label"]
    assert "overflow-x" not in re.sub(r"\.scroll \{.*?\}", "", STYLE)
