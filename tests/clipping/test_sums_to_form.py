"""Sums that are formed when they are asked for are those that are formed at once, and each can be asked for once."""

import pytest
import sharded_models
import sharded_runs
import torch
from torch import nn

from discreet.clipping import Chunk, Clip, private_parameters
from discreet.clipping.engines.bookkeeping import clipped_sums, sums_to_form
from discreet.clipping.engines.clipped_sums import sums_of_none
from discreet.clipping.rules import base

CLIP = Clip(0.5, 2.0**-20)


def given() -> tuple[nn.Module, nn.Module, Chunk]:
    model = sharded_models.gpt()
    model.norm = nn.Sequential(model.norm, sharded_models.Scale(sharded_models.WIDTH))  # type: ignore[assignment]
    words, targets = sharded_runs.texts()
    return model, nn.CrossEntropyLoss(), Chunk(words[:5], targets[:5])


def test_they_are_the_same_in_any_order() -> None:
    whole = clipped_sums(*given(), CLIP)
    for names in (sorted(whole), sorted(whole, reverse=True)):
        later = sums_to_form(*given(), CLIP)
        assert [*later] == [*whole] == [*private_parameters(given()[0])]
        for name in names:
            assert torch.equal(later[name], whole[name]), name
            with pytest.raises(KeyError):
                later[name]


def test_a_module_that_runs_again_does_so_before_its_weights_may_go() -> None:
    model, *rest = given()
    whole, later = clipped_sums(model, *rest, CLIP), sums_to_form(model, *rest, CLIP)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    assert all(torch.equal(later[name], whole[name]) for name in whole)


@pytest.mark.parametrize("budget", [base.BUDGET, 16 * 16 * 4 * 2])
def test_a_layer_that_reads_a_part_of_a_weight_is_formed_before_it_may_go(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where rules keep no products of so many rows, and read what came in again."""
    monkeypatch.setattr(base, "BUDGET", budget)
    words, targets = sharded_runs.texts()
    model, *rest = sharded_models.seeded(sharded_models.OfQueries), nn.CrossEntropyLoss(), Chunk(words[:5], targets[:5])
    whole, later = clipped_sums(model, *rest, CLIP), sums_to_form(model, *rest, CLIP)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    assert all(torch.equal(later[name], whole[name]) for name in whole)


def test_the_sums_of_no_units_are_on_the_device_of_the_weights_with_their_bit() -> None:
    """What rows that are done one at a time add is added to them."""
    sums = sums_of_none(nn.Linear(2, 3, device="meta"), Clip(0.5, 2.0**-20, bit=0.1))
    assert {one.device.type for one in sums.values()} == {"meta"}
