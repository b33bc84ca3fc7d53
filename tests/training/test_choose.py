"""The best model by private rows: which rows count, what it costs, and how it chooses."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from problems import blobs, linear
from scipy import stats
from torch import Tensor, nn

from discreet.accounting.account import guarantee
from discreet.core.errors import BudgetExhausted, InputError
from discreet.core.events import BoundedRange
from discreet.ledger import Budget, Ledger
from discreet.plan import Holdout
from discreet.queries import Account, release
from discreet.randomness import Purpose, TestStream
from discreet.training import choose_model
from discreet.training.tuning import choose as module


class Says(nn.Module):
    """Always the same class; notes in its class, which copies share, how many rows it is shown at a time."""

    sizes: ClassVar[set[int]] = set()

    def __init__(self, answer: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.eye(3)[answer])

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.add(len(x))
        return self.scores.expand(len(x), 3)


def account(folder: Path, **changes: Any) -> Account:
    return Account(folder / "ledger.sqlite", delta=1e-6, **changes)


def test_the_best_is_chosen_one_row_at_a_time_for_the_price_of_a_choice(tmp_path: Path) -> None:
    inputs, _ = blobs(30)
    models = [Says(0), Says(1), Says(2)]
    Says.sizes.clear()
    chosen = choose_model(models, (inputs, torch.ones(30, dtype=torch.int64)), account(tmp_path), epsilon=4.0)
    assert (chosen.index, chosen.model) == (1, models[1])
    assert Says.sizes == {1}
    assert chosen.guarantee == guarantee(BoundedRange(4.0), 1e-6)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert sum(entry.kind == "reservation" for entry in ledger.entries()) == 1
    ledger.close()


def test_it_is_the_exponential_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P(model) is proportional to exp(epsilon x its count): chi-square, false alarm 1e-9, were the seed not fixed.

    The scores are those of `choose_model`; the draws are repeated on one ledger-free stream.
    """
    kept: list[Any] = []

    def keep(rows: Any, queries: Any, paid: Any) -> Any:
        kept.extend(queries)
        return release(rows, queries, paid)

    monkeypatch.setattr(module, "release", keep)
    inputs, _ = blobs(6)
    targets = torch.tensor([0, 0, 0, 1, 1, 2])
    choose_model([Says(0), Says(1), Says(2)], (inputs, targets), account(tmp_path), epsilon=0.8)
    (choice,) = kept
    rows = np.arange(6, dtype=np.float64)[:, None]
    stream = TestStream(5)
    substream = stream.substream(Purpose.NOISE, 0)
    scores, adjacency = choice.score(rows), account(tmp_path).adjacency
    again = replace(choice, score=lambda _: scores)
    draws = [again.choose(rows, adjacency, substream) for _ in range(1500)]
    weights = np.array([math.exp(0.8 * count) for count in (3, 2, 1)])
    expected = 1500 * weights / weights.sum()
    observed = np.bincount(draws, minlength=3)
    assert float(np.sum((observed - expected) ** 2 / expected)) < stats.chi2.ppf(1 - 1e-9, 2)


def test_only_held_out_rows_are_asked(tmp_path: Path) -> None:
    """Held-out rows are of class 1 and all others of class 0."""
    holdout = Holdout(share=0.3)
    names = [f"row {i}" for i in range(60)]
    targets = torch.tensor([int(holdout.holds_out(name)) for name in names])
    assert 5 < int(targets.sum()) < 30
    data = (blobs(60)[0], targets)
    models = [Says(0), Says(1)]
    assert choose_model(models, data, account(tmp_path), 8.0, holdout=holdout, ids=names).index == 1
    assert choose_model(models, data, account(tmp_path), 8.0).index == 0


def test_what_cannot_be_chosen_costs_nothing(tmp_path: Path) -> None:
    inputs, targets = blobs()
    paid = account(tmp_path)
    with pytest.raises(InputError, match="no model"):
        choose_model([], blobs(), paid, 1.0)
    with pytest.raises(InputError, match="need one class per row"):
        choose_model([linear()], (inputs, inputs), paid, 1.0)
    with pytest.raises(InputError, match="go together"):
        choose_model([linear()], (inputs, targets), paid, 1.0, holdout=Holdout(share=0.5))
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert list(ledger.entries()) == []
    ledger.set_budget("people", Budget(0.5, 1e-5))
    ledger.close()
    limited = account(tmp_path, dataset="people")
    with pytest.raises(BudgetExhausted):
        choose_model([linear(), linear(1)], blobs(), limited, 1.0)


@pytest.mark.parametrize("ends", [False, True])
def test_a_row_that_a_model_fails_on_counts_as_wrong(tmp_path: Path, ends: bool) -> None:
    """It was an error, or the end of the program, after the charge, which told that there is such a row."""

    class Codes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores = nn.Embedding(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            if ends and int(x[0, 0]) > 4:
                raise SystemExit(1)
            scores: Tensor = self.scores(x[:, 0])
            return scores

    inputs = torch.tensor([[0], [1], [7]])
    chosen = choose_model([Codes(), Codes()], (inputs, torch.zeros(3, dtype=torch.int64)), account(tmp_path), 1.0)
    assert chosen.index in (0, 1)


def test_rows_that_cannot_be_put_together_cost_nothing(tmp_path: Path) -> None:
    rows = [(torch.zeros(4), 0), (torch.zeros(4), np.int64(1))]
    with pytest.raises(InputError, match="row 1 of the data is of types"):
        choose_model([linear(), linear(1)], rows, account(tmp_path), 1.0)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert list(ledger.entries()) == []
    ledger.close()
