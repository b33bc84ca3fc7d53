"""docs/language-models.md says by which engine each family is trained; the table is made, and checked, here.

Write it again with: python tests/docs/test_language_models.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from language_families import FAMILIES, inner_model, on_rows, rows_for, stacked, with_lora

import discreet
from discreet.clipping import Chunk, Clip
from discreet.core.errors import UnsupportedModel
from discreet.language import TASKS

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = Path(__file__).parents[2] / "docs" / "language-models.md"
HEAD = "| family | tried as | all weights | LoRA |\n|---|---|---|---|\n"
"""Where the part of the page begins that is made here."""

ALIKE = {name for name in FAMILIES if name not in ("GPT-Neo", "ModernBERT")}
"""Families whose layers are all of one kind. With adapters they have one; what several share, all weights have too."""

ROUNDED = {("Mixtral", True): ("`reference`", "refused")}
"""Those for which it depends on the processor: experts that rows share round with the number of these."""

PLAN = discreet.Plan.poisson(population=40, batch=20, steps=1, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)


def one_layer(name: str) -> dict[str, int]:
    """The settings of a configuration that say how many layers there are, with one instead; none if they differ."""
    counts = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")
    return {setting: 1 for setting in counts if setting in FAMILIES[name].sizes and name in ALIKE}


def engine_of(name: str, lora: bool) -> str:
    """The first engine that agrees with the reference on random rows, as the checks before a run find."""
    task = FAMILIES[name].task
    for engine in ("bookkeeping", "vmap", "reference"):
        inner = inner_model(name, **(one_layer(name) if lora else {}))
        model = on_rows(with_lora(inner, TASKS[task]) if lora else inner, task)
        optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
        try:
            training = discreet.Training(PLAN, model, TASKS[task].loss(), optimizer, rows_for(task, 40), engine=engine)
            inputs, targets = stacked(rows_for(task, 2))
            sums = training.engine.clipped_sum(model, TASKS[task].loss(), Chunk(inputs, targets), Clip(1.0, 2.0**-30))
        except UnsupportedModel:
            continue
        assert any(bool(part.any()) for part in sums.values())
        return f"`{engine}`"
    return "refused"


def table() -> dict[str, tuple[str, str]]:
    """The engines of the page, by family."""
    rows = [
        line.strip("| ").split(" | ") for line in PAGE.read_text().partition(HEAD)[2].splitlines() if line[:1] == "|"
    ]
    return {name: (full, lora) for name, _, full, lora in rows}


def page() -> str:
    """What is written by hand before and after the table, and the table."""
    before, _, rest = PAGE.read_text().partition(HEAD)
    after = "".join(line for line in rest.splitlines(keepends=True) if line[:1] != "|")
    lines = [
        f"| {name} | {family.task} | {said(name, False)} | {said(name, True)} |\n" for name, family in FAMILIES.items()
    ]
    return before + HEAD + "".join(lines) + after


def said(name: str, lora: bool) -> str:
    """What the page says of a family."""
    found, either = engine_of(name, lora), ROUNDED.get((name, lora))
    if either is None:
        return found
    assert found in either
    return " or ".join(either)


def test_the_page_has_every_family() -> None:
    assert list(table()) == list(FAMILIES), "run: python tests/docs/test_language_models.py"
    assert len(FAMILIES) >= 20


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_trained_by_the_engine_that_the_page_says(name: str, lora: bool) -> None:
    assert table()[name][lora] == said(name, lora)


def scripts() -> tuple[list[str], list[str]]:
    """The script before and after the change that the page shows."""
    (diff,) = re.findall(r"^```diff\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = diff.splitlines()
    return [one[1:] for one in lines if one[:1] != "+"], [one[1:] for one in lines if one[:1] != "-"]


def test_a_script_becomes_private_by_five_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, private = scripts()
    assert len([line for line in private if line not in plain]) <= 5
    for name, lines in (("plain", plain), ("private", private)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        exec(compile("\n".join(lines), f"{name}.py", "exec"), {})
        assert (tmp_path / name / "adapters" / "adapter_model.safetensors").is_file()
    assert discreet.verify(tmp_path / "private" / "adapters", strict=True).accepted


if __name__ == "__main__":
    sys.stdout.write(f"writing {PAGE}\n")
    PAGE.write_text(page())
