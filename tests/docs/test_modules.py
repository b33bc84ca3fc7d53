"""docs/modules.md says of every module type of torch.nn what happens to it; the table is made, and checked, here.

Write it again with: python tests/docs/test_modules.py
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.lazy import LazyModuleMixin

from discreet.clipping import ENGINES, Chunk, Clip, admit_model
from discreet.clipping.capture.owners import rule_of
from discreet.clipping.rules import Vectorised
from discreet.clipping.separation import Mixes, proved
from discreet.core.errors import UnsupportedModel

PAGE = Path(__file__).parents[2] / "docs" / "modules.md"
ROWS = 3

TABLE = "| module | with it |\n|---|---|\n"
"""Where the part of the page begins that is made here."""

WITH_PARAMETERS: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, Tensor], Tensor]]] = {
    "Bilinear": (lambda: nn.Bilinear(4, 4, 2), lambda m, x: m(x[:, 0], x[:, 1])),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(9, 2), lambda m, x: m((x[:, 0].abs() * 3).long() % 9)),
    "Embedding": (lambda: nn.Embedding(9, 2), lambda m, x: m((x[:, 0].abs() * 3).long() % 9)),
    "GRU": (lambda: nn.GRU(4, 2, batch_first=True), lambda m, x: m(x)[0]),
    "LSTM": (lambda: nn.LSTM(4, 2, batch_first=True), lambda m, x: m(x)[0]),
    "RNN": (lambda: nn.RNN(4, 2, batch_first=True), lambda m, x: m(x)[0]),
    "GRUCell": (lambda: nn.GRUCell(4, 2), lambda m, x: m(x[:, 0])),
    "LSTMCell": (lambda: nn.LSTMCell(4, 2), lambda m, x: m(x[:, 0])[0]),
    "RNNCell": (lambda: nn.RNNCell(4, 2), lambda m, x: m(x[:, 0])),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), lambda m, x: m(x, x, x)[0]),
    "Transformer": (
        lambda: nn.Transformer(4, 2, 1, 1, 4, dropout=0.0, batch_first=True),
        lambda m, x: m(x, x.flip(1)),
    ),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 4, dropout=0.0, batch_first=True), 2),
        lambda m, x: m(x, x.flip(1)),
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(4, 2, 4, dropout=0.0, batch_first=True),
        lambda m, x: m(x, x.flip(1)),
    ),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 4, dropout=0.0, batch_first=True), 2),
        lambda m, x: m(x),
    ),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 4, dropout=0.0, batch_first=True),
        lambda m, x: m(x),
    ),
    "LinearCrossEntropyLoss": (
        lambda: getattr(nn, "LinearCrossEntropyLoss")(4, 2),  # noqa: B009
        lambda m, x: torch.stack([m(row[None], torch.zeros(1, dtype=torch.int64)) for row in x[:, 0]]),
    ),
    "AdaptiveLogSoftmaxWithLoss": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4], div_value=2.0),
        lambda m, x: m.log_prob(x[:, 0]),
    ),
}
PLAIN: dict[str, tuple[tuple[object, ...], int]] = {
    "Linear": ((4, 2), 3),
    "LayerNorm": ((4,), 3),
    "RMSNorm": ((4,), 3),
    "PReLU": ((), 3),
    "GroupNorm": ((1, 3), 3),
    **{f"Conv{n}d": ((3, 2, 2), n + 2) for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": ((3, 2, 2), n + 2) for n in (1, 2, 3)},
    **{f"InstanceNorm{n}d": ((3, 1e-5, 0.1, True), n + 2) for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": ((3,), n + 2) for n in (1, 2, 3)},
    "SyncBatchNorm": ((3,), 3),
}
"""Modules of one input with as many axes as are given here."""


class Inside(nn.Module):
    """A module behind a linear layer."""

    def __init__(self, module: nn.Module, call: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.before, self.module, self.call = nn.Linear(4, 4), module, call

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(3 * self.call(self.module, self.before(x)))


def inside(name: str) -> tuple[nn.Module, Tensor]:
    """A model with the module in it, and inputs."""
    torch.manual_seed(0)
    if name in WITH_PARAMETERS:
        build, call = WITH_PARAMETERS[name]
        return Inside(build(), call).double(), torch.randn(ROWS, 3, 4, dtype=torch.float64)
    options, axes = PLAIN[name]
    shape = {3: (3, 4), 4: (3, 2, 4), 5: (3, 2, 2, 4)}[axes]
    model = Inside(getattr(nn, name)(*options), lambda module, x: module(x))
    return model.double(), torch.randn(ROWS, *shape, dtype=torch.float64)


def run(model: nn.Module, inputs: Tensor, engine: str = "bookkeeping") -> Mapping[str, Tensor]:
    """The clipped sum of rows by an engine."""
    rows = Chunk(inputs, torch.zeros(len(inputs)))
    return ENGINES[engine].clipped_sum(model, lambda output, _: output.sum(), rows, Clip(0.5, 2.0**-30))


def types() -> list[str]:
    """Every public module type of torch.nn."""
    found = [name for name, kind in vars(nn).items() if inspect.isclass(kind) and issubclass(kind, nn.Module)]
    return sorted(name for name in found if name not in ("Module", "Container"))


def fate(name: str) -> str:
    """What is said of a module type."""
    kind = getattr(nn, name)
    if issubclass(kind, LazyModuleMixin):
        return "refused until it has seen public input; then as the type it becomes"
    if issubclass(kind, _BatchNorm):
        return (
            "refused: it mixes the examples of a batch; `discreet.replace_batch_norm(model)`. Frozen by `.eval()`: rule"
        )
    if name == "LinearCrossEntropyLoss":
        return "refused: it uses a weight outside the module that holds it; the engine `vmap` may run it"
    if name == "AdaptiveLogSoftmaxWithLoss":
        return "by the modules inside; `bookkeeping` and `ghost` are refused, since it sorts rows by their classes"
    if name in WITH_PARAMETERS or name in PLAIN:
        model, _ = inside(name)
        module = model.get_submodule("module")
        rule = rule_of(module)
        if rule is not None:
            return "alone" if issubclass(rule, Vectorised) else "rule"
        return "by the modules inside" if not list(module.parameters(recurse=False)) else "alone"
    if name in ("RNNBase", "RNNCellBase"):
        return "a base class"
    if name == "DataParallel":
        return "refused: give the model in it, `model.module`"
    if name in ("ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"):
        return "by the modules inside" if name[0] in "MS" else "alone, with the module that holds it"
    if name.endswith("Loss"):
        return "no parameters; a loss is evaluated for each example"
    return "no parameters"


def page() -> str:
    """What is written by hand, and the table."""
    return PAGE.read_text().partition(TABLE)[0] + TABLE + "".join(f"| {name} | {fate(name)} |\n" for name in types())


def test_the_page_is_up_to_date() -> None:
    """A page made with a newer torch has more lines."""
    assert set(page().splitlines()) <= set(PAGE.read_text().splitlines()), "run: python tests/docs/test_modules.py"


@pytest.mark.parametrize("name", [name for name in types() if name in WITH_PARAMETERS or name in PLAIN])
def test_a_module_does_what_the_page_says(name: str) -> None:
    model, inputs = inside(name)
    if fate(name).startswith("refused"):
        mixes = isinstance(model.get_submodule("module"), _BatchNorm)
        if mixes:
            with pytest.raises(UnsupportedModel, match=name):
                admit_model(model)
        with pytest.raises(UnsupportedModel, match=f"{name}|'module.linear.weight' is used outside"):
            run(model, inputs)
        if not mixes:
            return
        model.get_submodule("module").eval()
    admit_model(model)
    sums = [run(model, inputs, engine) for engine in ("bookkeeping", "reference")]
    for key in sums[1]:
        torch.testing.assert_close(sums[0][key], sums[1][key], rtol=1e-9, atol=1e-11)
    with pytest.raises(Mixes) if "are refused" in fate(name) else nullcontext():
        proved(lambda rows: run(model, inputs[torch.arange(rows) % ROWS]))


@pytest.mark.filterwarnings("ignore")  # some are deprecated
@pytest.mark.parametrize("name", [name for name in types() if fate(name).startswith("no parameters")])
def test_what_is_said_to_have_no_parameters_has_none(name: str) -> None:
    kind = getattr(nn, name)
    for options in ((), (2,), (2, 2), (2, 2, 2), (1, (2, 2))):
        try:
            module = kind(*options)
        except (TypeError, ValueError):
            continue
        assert not list(module.parameters())
        return
    pytest.fail(f"{name} cannot be built; say how")


if __name__ == "__main__":
    sys.stdout.write(f"writing {PAGE}\n")
    PAGE.write_text(page())
