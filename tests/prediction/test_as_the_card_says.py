"""The Python lines of a published folder's card and report run, for models that only their makers can build."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import discreet
from discreet.language import TASKS, TransformersModel, TransformersRows

PLAN = discreet.Plan.poisson(population=40, batch=10, steps=2, clip_norm=1.0, noise_multiplier=1.0, delta=1e-3)


class Sized(nn.Module):
    """A model that is built with an argument."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.layers(rows)
        return found


def plain_rows() -> tuple[Tensor, Tensor]:
    return torch.randn(40, 5, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2


def of_transformers() -> nn.Module:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed; it is in the extra hf")
    shape = {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=20, num_labels=2, pad_token_id=0, **shape)
    return TransformersModel(transformers.AutoModelForSequenceClassification.from_config(config), "classification")


def token_rows() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(1, 20, (40, 6), generator=torch.Generator().manual_seed(0))
    rows = [{"input_ids": one, "attention_mask": one * 0 + 1, "labels": i % 2} for i, one in enumerate(tokens)]
    return TransformersRows(rows, "classification").tensors()


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, Tensor]]]] = {
    "a sequence": (lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)), plain_rows),
    "a class with an argument": (lambda: Sized(3), plain_rows),
    "a whole model of transformers": (of_transformers, token_rows),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_lines_of_card_and_report_load_the_model(name: str, tmp_path: Path) -> None:
    build_model, data = CASES[name]
    model, (rows, targets) = build_model(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = TASKS["classification"].loss()
    trained = discreet.Training(PLAN, model, loss, optimizer, (rows, targets), run=tmp_path / "run").run(progress=False)
    folder = tmp_path / "out"
    discreet.publish(trained, folder)
    (card,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    (page,) = re.findall(r"<pre><code>(import .*?)</code>", (folder / "report.html").read_text(), re.DOTALL)
    assert html.unescape(page).strip() == card.strip()
    names: dict[str, Any] = {"build_model": build_model, "rows": rows[:3]}
    exec(card.replace("FOLDER", str(folder)), names)
    with torch.no_grad():
        wanted = trained.model.eval()(rows[:3])
    assert torch.equal(names["predictor"].scores(rows[:3]), wanted)
