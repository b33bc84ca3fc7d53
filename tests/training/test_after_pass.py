"""Sums of shards that are formed after their pass: what fails there says nothing of a row."""

import pytest
import torch
from torch import Tensor

from discreet.clipping.engines.bookkeeping import SumsToForm
from discreet.core.errors import PrivacyViolation
from discreet.training.sharded.sharded_engine import AfterPass


def failing(error: BaseException) -> AfterPass:
    def form(name: str) -> Tensor:
        if name == "a":
            return torch.ones(2)
        raise error

    return AfterPass(SumsToForm(form, ["a", "b"], {}))


@pytest.mark.parametrize(
    "error", [RuntimeError("a private row"), ValueError("a private row"), KeyError("a private row")]
)
def test_an_error_ends_the_run_without_its_words(error: Exception) -> None:
    sums = failing(error)
    assert torch.equal(sums["a"], torch.ones(2))
    with pytest.raises(PrivacyViolation, match="'b' could not be formed") as met:
        sums["b"]
    assert "private row" not in str(met.value)
    assert met.value.__suppress_context__


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()])
def test_what_is_not_of_a_row_is_raised_as_it_is(error: BaseException) -> None:
    with pytest.raises(type(error)):
        failing(error)["b"]
