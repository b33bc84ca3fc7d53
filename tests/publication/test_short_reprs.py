"""What a terminal and a notebook show of a run, a search, a check, a loaded model and a ledger: at most ten lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from discreet import Plan, PublicData, RunOptions, Training, load, publish, verify
from discreet.accounting.adaptive.filters import BasicFilter
from discreet.ledger import Ledger
from discreet.plan import PartsSearch
from discreet.training import Setup, Tuning


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


def test_of_a_run_and_a_search_in_a_line_of_public_facts(tmp_path: Path) -> None:
    """Neither what was drawn nor how many trials there are; of charges that are over, how many."""
    torch.manual_seed(0)
    data = torch.randn(60, 4), torch.arange(60) % 2
    plan = Plan.poisson(population=70, batch=20, steps=3, clip_norm=1.0, delta=1e-3, noise_multiplier=2.0)
    model, loss = nn.Linear(4, 2), nn.CrossEntropyLoss()
    training = Training(plan, model, loss, torch.optim.SGD(model.parameters(), lr=0.1), data, run=tmp_path / "here")
    promise = str(plan.guarantee())
    assert repr(training) == f"<Training: 3 steps, {promise}; engine bookkeeping, folder {tmp_path / 'here'}>"
    assert repr(training.preflight) == f"<Preflight: {training.preflight.line}>"
    assert "\n" not in repr(training.preflight)
    with training.session() as session:
        for position in range(3):
            assert repr(session) == f"<Session: {position} of 3 charged releases are over; {promise}>"
            with session.step() as step:
                step.add_all(loss)
        assert repr(session) == f"<Session: 3 of 3 charged releases are over; {promise}>"

    def build(settings: Mapping[str, Any]) -> Setup:
        made = nn.Linear(4, 2)
        return Setup(made, nn.CrossEntropyLoss(), torch.optim.SGD(made.parameters(), lr=settings["optimizer.lr"]))

    search = PartsSearch.make({"optimizer.lr": [0.1, 1.0]}).over(plan)
    tuning = Tuning(search, build, data, ids=range(60), run=tmp_path / "search")
    whole = str(search.guarantee())
    assert repr(tuning) == f"<Tuning: 2 candidates; the whole search {whole}; folder {tmp_path / 'search'}>"
