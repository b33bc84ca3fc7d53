"""What a terminal and a notebook show of a run, a check, a loaded model and a ledger: at most ten lines."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from discreet import Plan, PublicData, RunOptions, Training, load, publish, verify
from discreet.accounting.adaptive.filters import BasicFilter
from discreet.ledger import Ledger


def test_reprs_fit_ten_lines_and_say_the_figures(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(60, 4), torch.arange(60) % 2
    plan = Plan.poisson(population=60, batch=20, steps=3, clip_norm=1.0, delta=1e-3, noise_multiplier=2.0)
    model = nn.Linear(4, 2)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("people <b>", BasicFilter(5.0, 1e-2))
    trained = Training(
        plan,
        model,
        nn.CrossEntropyLoss(),
        torch.optim.SGD(model.parameters(), lr=0.1),
        (x, y),
        public=PublicData(test=(torch.randn(10, 4), y[:10].clone())),
        run=RunOptions(ledger=tmp_path / "ledger.sqlite", dataset_id="people <b>"),
    ).run(progress=False)
    publish(trained, tmp_path / "folder")
    accepted = verify(tmp_path / "folder")
    (tmp_path / "folder" / "plan.yaml").write_text("steps: 5\n")
    rejected = verify(tmp_path / "folder")
    shown = {name: repr(one) for name, one in {"trained": trained, "yes": accepted, "no": rejected}.items()}
    assert all(len(text.splitlines()) <= 10 for text in shown.values())
    assert "charged steps: 3 of 3" in shown["trained"]
    assert "accuracy" in shown["trained"]
    assert "ACCEPTED" in shown["yes"]
    assert "FAILED" not in shown["yes"]
    assert "FAILED files" in shown["no"]
    page = ledger._repr_html_()
    assert "in 1 run, of epsilon 5" in page
    assert "<b>" not in page.replace("<b>Ledger", "")


def test_of_a_loaded_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    plan = Plan.poisson(population=60, batch=20, steps=2, clip_norm=1.0, delta=1e-3, noise_multiplier=2.0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(60, 4), torch.arange(60) % 2
    trained = Training(plan, model, nn.CrossEntropyLoss(), optimizer, data).run(progress=False)
    publish(trained, tmp_path / "folder")
    text = repr(load(tmp_path / "folder", nn.Linear(4, 2)))
    assert len(text.splitlines()) <= 10
    assert "parameters: 10" in text
    assert f"epsilon: at most {plan.guarantee().epsilon:.2f}"[:-1] in text
