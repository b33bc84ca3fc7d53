"""Weights that are gathered together, and those that stay until the sum of a chunk is formed."""

from sharded_models import Vit, gpt
from torch import nn

from discreet.distributed.weight_units import WeightUnit, weight_units


class Squared(nn.Module):
    """Holds a parameter itself, and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.by, self.layer = nn.Parameter(nn.Linear(4, 4).weight.detach()), nn.Linear(4, 4).requires_grad_(False)


def test_blocks_are_gathered_whole_and_other_modules_one_by_one() -> None:
    model = gpt(layers=2)
    units = weight_units(model)
    assert [unit.modules for unit in units] == [("embed",), ("blocks.0",), ("blocks.1",), ("norm",), ("head",)]
    assert not any(unit.kept for unit in units)
    assert sorted(name for unit in units for name in unit.names) == sorted(dict(model.named_parameters()))


def test_of_a_block_that_holds_a_parameter_itself_only_that_one_stays() -> None:
    model = Vit()
    kept, *others = weight_units(model)
    held = ("blocks.0.gamma", "blocks.2.gamma", "frozen", "places", "token")
    assert kept == WeightUnit(("", "blocks.0", "blocks.2"), held, kept=True)
    assert [unit.modules for unit in others] == [("embed",), ("blocks.0",), ("blocks.1",), ("blocks.2",), ("head",)]
    assert not any(unit.kept for unit in others)
    names = sorted(name for unit in (kept, *others) for name in unit.names)
    assert names == sorted(dict(model.named_parameters()))


def test_frozen_parameters_beside_modules_stay_as_these_may_be_used_after_them() -> None:
    model = Vit().requires_grad_(requires_grad=False)
    model.head.requires_grad_(requires_grad=True)
    kept, *others = weight_units(model)
    assert kept == WeightUnit(("",), ("frozen", "places", "token"), kept=True)
    assert next(unit for unit in others if unit.modules == ("blocks.0",)).names[0] == "blocks.0.down.bias"
    assert "blocks.0.gamma" in next(unit for unit in others if unit.modules == ("blocks.0",)).names


def test_with_a_module_that_runs_again_the_frozen_layers_inside_stay() -> None:
    kept, other = weight_units(nn.Sequential(Squared(), nn.Linear(4, 2)))
    assert kept == WeightUnit(("0", "0.layer"), ("0.by", "0.layer.bias", "0.layer.weight"), kept=True)
    assert other == WeightUnit(("1",), ("1.bias", "1.weight"), kept=False)


def test_attention_stays_whole_and_needs_its_weights_as_it_does_not_call_what_is_inside() -> None:
    kept, other = weight_units(nn.ModuleDict({"mix": nn.MultiheadAttention(4, 2), "head": nn.Linear(4, 2)}))
    assert kept.modules == ("mix", "mix.out_proj")
    assert kept.names == tuple(sorted(f"mix.{name}" for name in dict(nn.MultiheadAttention(4, 2).named_parameters())))
    assert (other.modules, other.kept) == (("head",), False)


def test_a_weight_that_two_modules_share_is_in_one_unit() -> None:
    model = gpt(layers=1)
    model.blocks[0].up.weight = model.blocks[0].down.weight = model.head.weight = model.embed.weight  # type: ignore[assignment]
    shared = next(unit for unit in weight_units(model) if "embed.weight" in unit.names)
    assert {*shared.modules} == {"embed", "blocks.0", "head"}
    assert not shared.kept
