"""Random rows of whole numbers fit the tables that a model looks them up in, and only those."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discreet.data import as_private
from discreet.training.preflight.random_rows import below_all, random_rows

ROWS = torch.zeros(3, 8, dtype=torch.int64)
LABELS = torch.tensor([0, 1, 0])


class Typed(nn.Module):
    """Looks words up in one table; a second one, of the types of words, is used as it is or with `both` for words."""

    def __init__(self, words: int = 300, types: int = 1, *, both: bool = False) -> None:
        super().__init__()
        self.words, self.types, self.both = nn.Embedding(words, 4), nn.Embedding(types, 4), both
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        kinds = x if self.both else torch.zeros_like(x)
        found: Tensor = self.head((self.words(x) + self.types(kinds)).mean(1))
        return found


def test_tables_of_something_else_do_not_limit_words() -> None:
    """All words were the same one for models with one type of words, as RoBERTa has, and one of two for BERT."""
    for types in (1, 2):
        found = random_rows(Typed(types=types), as_private((ROWS, LABELS)), 2).inputs
        assert int(found.max()) > 200
        assert len(found.unique()) > 50


@pytest.mark.parametrize("types", [1, 2, 40])
def test_every_table_that_is_asked_limits_them(types: int) -> None:
    assert below_all(Typed(types=types, both=True), ROWS) == types


def test_columns_with_tables_of_their_own_fit_the_smallest() -> None:
    class Columns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(size, 2) for size in (90, 7, 30))

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([table(x[:, i]) for i, table in enumerate(self.tables)], 1)

    assert below_all(Columns(), ROWS[:, :3]) == 7


def test_a_large_table_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Typed, "forward", lambda *_: pytest.fail("it was run"))
    assert below_all(Typed(words=5_000, types=256), ROWS) == 256
    assert below_all(nn.Linear(2, 2), ROWS) == 2


def test_the_model_and_torchs_generator_stay_as_they_are() -> None:
    model = Typed()
    before, state = torch.get_rng_state(), [one.clone() for one in model.parameters()]
    assert below_all(model, ROWS) == 300
    assert all(map(torch.equal, state, model.parameters()))
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training


def test_a_model_that_fails_on_all_rows_gets_the_smallest() -> None:
    class Failing(Typed):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("no")

    assert below_all(Failing(types=3), ROWS) == 3
