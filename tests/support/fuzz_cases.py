"""Random cases for the engines, each from its number alone: a module, rows of any size, a loss, a clip and units.

What is right is written out here and in `clips.contributions`, without the library's engines: one backward pass for
each row alone, the mean over a unit, the clip, the sum.
"""

from __future__ import annotations

import copy
import math
import random
from dataclasses import dataclass, replace

import torch
from clips import CLIPS, contributions, length
from fuzz_blocks import BLOCKS, fitting
from fuzz_losses import LOSSES, WIDTH, Criterion
from fuzz_starts import STARTS, TOKENS
from torch import Tensor, nn

from discreet.clipping import Chunk, Clip, Units, private_parameters
from discreet.clipping.engines.clipped_sums import ClippedSums

SHAPES = ((4,), (8,), (17,), (3, 4), (6, 2), (2, 5, 5), (3, 4, 6), (1, 3, 3, 3))
KINDS = ("normal", "uniform", "constant", "offset", "sparse", "alternating", "black", "levels", "one")


@dataclass(frozen=True)
class Case:
    """What engines are given. `sizes`: how many rows each unit has. `names`: of the blocks, the loss and the clip."""

    number: int
    model: nn.Module
    criterion: Criterion
    inputs: Tensor
    targets: Tensor
    sizes: tuple[int, ...]
    clip: Clip
    names: tuple[str, ...]

    @property
    def units(self) -> Units | None:
        """None if every row is a unit."""
        return Units(self.sizes) if max(self.sizes) > 1 else None

    @property
    def most(self) -> int:
        """The rows of the largest unit."""
        return max(self.sizes)

    def in_double(self) -> Case:
        """The same model and rows in double precision."""
        inputs, targets = (part.double() if part.is_floating_point() else part for part in (self.inputs, self.targets))
        model, criterion = copy.deepcopy((self.model, self.criterion))
        criterion = criterion.double() if isinstance(criterion, nn.Module) else criterion
        return replace(self, model=model.double(), criterion=criterion, inputs=inputs, targets=targets)

    def total(self, engine: ClippedSums, chosen: list[int]) -> dict[str, Tensor]:
        """The sum of these units, as one chunk."""
        ends = [sum(self.sizes[: i + 1]) for i in range(len(self.sizes))]
        rows = [row for i in chosen for row in range(ends[i] - self.sizes[i], ends[i])]
        units = None if self.units is None else Units(tuple(self.sizes[i] for i in chosen))
        found = engine(self.model, self.criterion, Chunk(self.inputs[rows], self.targets[rows], units), self.clip)
        return {name: part.detach().double() for name, part in found.items()}


def row_of(kind: str, shape: tuple[int, ...], size: float) -> Tensor:
    """One row."""
    made = {
        "normal": lambda: torch.randn(shape),
        "uniform": lambda: torch.rand(shape),
        "constant": lambda: torch.ones(shape),
        "offset": lambda: 1 + 1e-3 * torch.randn(shape),
        "sparse": lambda: torch.randn(shape) * (torch.rand(shape) < 0.2),
        "alternating": lambda: torch.tensor([1.0, -1.0]).repeat(math.prod(shape))[: math.prod(shape)].view(shape),
        "black": lambda: torch.zeros(shape),
        "levels": lambda: torch.randint(0, 256, shape) / 255,
        "one": lambda: torch.nn.functional.one_hot(torch.tensor(0), math.prod(shape)).view(shape),
    }[kind]()
    return (made.double() * size).to(torch.get_default_dtype())


def _size(rng: random.Random) -> float:
    return 10 ** rng.uniform(-20, 20)


def _module(rng: random.Random, shape: tuple[int, ...]) -> tuple[nn.Module, list[str]]:
    """A chain of blocks and a last layer."""
    parts: list[nn.Module] = []
    used: list[str] = []
    if len(shape) == 1 and rng.random() < 0.12:
        start = rng.choice(sorted(STARTS))
        made, shape = STARTS[start](rng, shape)
        parts, used = [made], [start]
    for _ in range(rng.randint(1, 6)):
        able = fitting(shape)
        name = rng.choice(able)
        made, after = BLOCKS[name].build(rng, shape)
        if math.prod(after) > 400 or min(after) < 1:
            continue
        parts.append(made)
        used.append(name)
        shape = after
    if len(shape) > 1:
        parts.append(nn.Flatten())
    return nn.Sequential(*parts, nn.Linear(math.prod(shape), WIDTH)), used


def _rows(rng: random.Random, rows: int, shape: tuple[int, ...]) -> Tensor:
    way = rng.choice(("ordinary", "alike", "mixed", "mixed", "some"))
    kinds, size = [rng.choice(KINDS) for _ in range(rows)], _size(rng)
    if way == "ordinary":
        return torch.stack([row_of(kind, shape, 1.0) for kind in kinds])
    if way == "alike":
        return torch.stack([row_of(kinds[0], shape, size) for _ in kinds])
    if way == "some":
        return torch.stack([row_of(kind, shape, rng.choice((1.0, size))) for kind in kinds])
    return torch.stack([row_of(kind, shape, _size(rng)) for kind in kinds])


def case(number: int) -> Case:
    """The case of this number."""
    rng = random.Random(f"module {number}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        count = rng.choice((2, 3, 4, 5, 6, 9))
        most = rng.choice((1, 1, 2, 3))
        sizes = tuple(rng.randint(1, most) for _ in range(count))
        shape, rows = rng.choice(SHAPES), sum(sizes)
        model, used = _module(rng, shape)
        tokens = used[:1] in ([name] for name in STARTS)
        inputs = torch.randint(0, TOKENS, (rows, *shape)) if tokens else _rows(rng, rows, shape)
        loss = rng.choice(sorted(LOSSES))
        criterion, targets = LOSSES[loss](rng, rows, rng.choice((1.0, _size(rng))))
        way = rng.choice(sorted(CLIPS))
        found = Case(number, model, criterion, inputs, targets, sizes, Clip(1.0, 1.0), (*used, loss, way))
        lengths = [length(row) for row in gradients(found)]
        usual = sorted(one for one in lengths if 0 < one < 1e30) or [1.0]
        norm = rng.choice(usual) * 10 ** rng.choice((0.0, 0.0, -1.0, -3.0, 1.0))
        clip = CLIPS[way](model, min(max(norm, 1e-6), 1e6))
        grid = 2.0 ** (math.floor(math.log2(clip.spread)) - 30)
        return replace(found, clip=replace(clip, grid=grid))


def gradients(case: Case) -> list[dict[str, Tensor]]:
    """The mean gradient of each unit, each row by a backward pass of its own."""
    parameters, found, row = private_parameters(case.model), [], 0
    for size in case.sizes:
        total = {name: torch.zeros_like(one, dtype=torch.float64) for name, one in parameters.items()}
        for i in range(row, row + size):
            loss = case.criterion(case.model(case.inputs[i : i + 1].clone()), case.targets[i : i + 1].clone()).sum()
            if loss.requires_grad:
                parts = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
                for name, part in zip(parameters, parts, strict=True):
                    total[name] = total[name] if part is None else total[name] + part
        found.append({name: part / size for name, part in total.items()})
        row += size
    return found


def wanted(case: Case, units: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The clipped sum, from gradients of units."""
    parts = [contributions(unit, case.clip) for unit in units]
    return {name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]}
