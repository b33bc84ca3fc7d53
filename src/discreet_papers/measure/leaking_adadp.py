"""ADADP on MNIST line by line as it is printed, in the open. Loads torch.

It certifies nothing and states no epsilon: line 23 of Algorithm 1 shapes clipping and noise by raw gradients, line 25
moves the weights by them, and noise is drawn from an ordinary generator. The data is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from discreet.clipping.factor import clip_factor
from discreet.clipping.rules.products.outer import boxed_sum, scaled_squares
from discreet.core.events import Gaussian
from discreet.core.release import Receipt, Release
from discreet.data import Split
from discreet.data.sets.mnist import mnist
from discreet.methods import ADADP
from discreet.methods.adadp_as_published import Printed
from discreet.methods.released_scales import ReleasedScales
from discreet.queries.pca import principal_components
from discreet.recipes.models.models import mlp
from discreet_papers.part import Cell, Setting

RATE, CLIP = 0.01, 4.0
"""The sampling probability and the clip norm of the paper's runs on MNIST."""

_LEAST_SIDE = 1e-12
"""Of a box, so that one can divide by it."""

Named = Mapping[str, Tensor]


def run(cell: Cell, setting: Setting) -> dict[str, Any]:
    """The accuracy on the test images, or on those held out."""
    facts, generator = cell.facts, torch.Generator().manual_seed(cell.seed or 0)
    split = _images(facts["held_out"], setting)
    vectors = components(split.train[0], facts["components"], facts["components_noise"], generator)
    inputs, targets = project(split.train[0], vectors), split.train[1]
    network = Network(mlp(facts["components"], 10, [facts["hidden"]], cell.seed or 0))
    lot = RATE * len(inputs)
    settings = Printed(facts["steps"], facts["noise"], facts["lr"], lot=lot, rate=RATE, clip_norm=CLIP)
    training = _Training(network, settings, facts["method"], generator)
    for _ in range(facts["steps"]):
        drawn = (torch.rand(len(inputs), generator=generator) < RATE).nonzero()[:, 0]
        training.step(network.factors(inputs[drawn], targets[drawn]))
    assert split.test is not None
    right = network(project(split.test[0], vectors)).argmax(1) == split.test[1]
    return {"accuracy": round(float(right.double().mean()), 6)}


@dataclass(frozen=True, slots=True)
class Factors:
    """The gradients of one layer: of example n it is `slopes[n]` times the transposed `values[n]`."""

    values: Tensor
    slopes: Tensor

    def total(self, weights: Tensor | None = None) -> Tensor:
        """The sum of the gradients, each times its weight: float64."""
        slopes = self.slopes if weights is None else self.slopes * weights.float()[:, None]
        return (slopes.T @ self.values).double()

    def squares(self) -> Tensor:
        """The sum of the squares of the gradients, number by number: float64."""
        return (self.slopes.square().T @ self.values.square()).double()


class Network(nn.Module):
    """A network of one hidden layer; each layer's bias is the last column of its weights."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        inner, outer = (layer for layer in model.modules() if isinstance(layer, nn.Linear))
        self.inner, self.outer = (
            nn.Parameter(torch.cat([one.weight.detach(), one.bias.detach()[:, None]], 1)) for one in (inner, outer)
        )

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of the classes."""
        return self._layers(inputs)[-1]

    @torch.no_grad()
    def factors(self, inputs: Tensor, targets: Tensor) -> dict[str, Factors]:
        """The gradients of cross entropy, example by example."""
        values, hidden, scores = self._layers(inputs)
        wrong = torch.softmax(scores, 1)
        wrong[torch.arange(len(wrong)), targets] -= 1
        back = (wrong @ self.outer[:, :-1]) * (hidden[:, :-1] > 0)
        return {"inner": Factors(values, back), "outer": Factors(hidden, wrong)}

    def _layers(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values = _with_one(inputs)
        hidden = _with_one((values @ self.inner.T).clamp(min=0))
        return values, hidden, hidden @ self.outer.T


class Scales(Protocol):
    """How one step is clipped, from what the steps before it showed."""

    def scales(self) -> tuple[str, Named]:
        """flat, ellipsoid or box, and the scales."""

    def update(self, factors: Mapping[str, Factors], noisy: Named, std: float) -> None:
        """Look at a step: its raw gradients, its noisy sums in the scales, and the noise in them."""


class Released:
    """Scales of the library: what they look at is released."""

    def __init__(self, network: Network, lot: float) -> None:
        self._lot, self._geometry = lot, ReleasedScales(ADADP(), network, CLIP)

    def scales(self) -> tuple[str, Named]:
        """An ellipsoid."""
        return "ellipsoid", {name: scale.clone() for name, scale in self._geometry.scales().items()}

    def update(self, factors: Mapping[str, Factors], noisy: Named, std: float) -> None:
        """The noisy sums alone."""
        event = Gaussian(1.0)
        tensors = {name: one.numpy().copy() for name, one in noisy.items()}
        self._geometry.update(Release(tensors, event, Receipt("in the open", 0, 0, event)), std, self._lot)


class Leaking:
    """Scales by line 23 as printed, whose average is of raw gradients: not private.

    `squares`: of the mean gradient of the lot, or the mean of the squares of its examples' gradients; the paper says
    neither. `clip`: a box, as in line 10, or the ellipsoid of the library.
    """

    def __init__(self, network: Network, settings: Printed, squares: str, clip: str) -> None:
        self._settings, self._of_examples, self._clip = settings, squares == "examples", clip
        self._average = {name: torch.zeros(one.shape, dtype=torch.float64) for name, one in network.named_parameters()}

    def scales(self) -> tuple[str, Named]:
        """Lines 7 to 9: flat at first."""
        if self._clip == "ellipsoid":
            shape = ADADP(beta=self._settings.beta).scales(_joined(self._average.values()), 0.0)
            return ("flat", {}) if shape is None else ("ellipsoid", self._parted(shape))
        roots = _joined(self._average.values()).sqrt()
        if not float(roots.var(correction=0)) > self._settings.threshold:
            return "flat", {}
        return "box", self._parted((self._settings.beta * roots).clamp(min=_LEAST_SIDE))

    def update(self, factors: Mapping[str, Factors], noisy: Named, std: float) -> None:
        """Line 23: the raw gradients alone."""
        for name, one in factors.items():
            lot = self._settings.lot
            seen = one.squares() / lot if self._of_examples else (one.total() / lot).square()
            self._average[name].lerp_(seen, 1 - self._settings.decay)

    def _parted(self, flat: Tensor) -> Named:
        parts = torch.split(flat, [one.numel() for one in self._average.values()])
        return {name: part.view_as(one) for (name, one), part in zip(self._average.items(), parts, strict=True)}


class Flat:
    """One clip norm for the whole gradient."""

    def scales(self) -> tuple[str, Named]:
        """None."""
        return "flat", {}

    def update(self, factors: Mapping[str, Factors], noisy: Named, std: float) -> None:
        """Nothing is looked at."""


class _Training:
    """Steps of a method: {squares: none, released, mean or examples; clip: ellipsoid or box; moved_by: noisy or raw;
    divided: whether equation 1 divides}."""

    def __init__(
        self, network: Network, settings: Printed, method: Mapping[str, Any], generator: torch.Generator
    ) -> None:
        self._network, self._settings, self._method = network, settings, method
        self._generator = generator
        self._rates = {name: torch.zeros(one.shape, dtype=torch.float64) for name, one in network.named_parameters()}
        self._scales: Scales
        match method["squares"]:
            case "none":
                self._scales = Flat()
            case "released":
                self._scales = Released(network, settings.lot)
            case squares:
                self._scales = Leaking(network, settings, squares, method["clip"])

    @torch.no_grad()
    def step(self, factors: Mapping[str, Factors]) -> None:
        """Clip, add noise, move, and look."""
        settings = self._settings
        kind, scales = self._scales.scales()
        sums, sensitivity = clipped_sums(factors, kind, scales)
        std = settings.multiplier * sensitivity
        noisy = {name: one + std * _normal(one, self._generator) for name, one in sums.items()}
        for name, parameter in self._network.named_parameters():
            mean = noisy[name] * scales.get(name, 1.0) / settings.lot
            moved = factors[name].total() / settings.lot if self._method["moved_by"] == "raw" else mean
            if self._method["divided"]:
                rates = self._rates[name].lerp_(mean.square(), settings.gamma)
                moved = moved / (rates + settings.eps).sqrt()
            parameter.sub_((settings.lr * moved).float())
        self._scales.update(factors, noisy, std)


def clipped_sums(factors: Mapping[str, Factors], kind: str, scales: Named) -> tuple[Named, float]:
    """The sums of clipped gradients, divided by the scales if there are any, and how far one example can move them."""
    numbers = sum(one.values.shape[1] * one.slopes.shape[1] for one in factors.values())
    if kind == "box":
        return {name: boxed_sum(one.values, one.slopes, scales[name]) for name, one in factors.items()}, math.sqrt(
            numbers
        )
    parts = [
        scaled_squares(one.values, one.slopes, scales[name])
        if scales
        else one.values.double().square().sum(1) * one.slopes.double().square().sum(1)
        for name, one in factors.items()
    ]
    weights = clip_factor(torch.stack(parts).sum(0).sqrt(), CLIP, numbers)
    return {name: one.total(weights) / scales.get(name, 1.0) for name, one in factors.items()}, CLIP


def components(rows: Tensor, count: int, multiplier: float, generator: torch.Generator) -> Tensor:
    """The top components of the noisy covariance of rows scaled to norm 1: (count, columns), float64."""
    flat = rows.flatten(1).double()
    flat = flat / flat.norm(dim=1, keepdim=True).clamp(min=1e-9)
    noise = multiplier * torch.randn(flat.shape[1], flat.shape[1], dtype=torch.float64, generator=generator)
    noisy = flat.T @ flat + noise.triu() + noise.triu(1).T
    return torch.from_numpy(principal_components(noisy.numpy(), count).vectors.copy())


def project(rows: Tensor, vectors: Tensor) -> Tensor:
    """Rows (n, ...) on components: (n, count)."""
    return (rows.flatten(1).double() @ vectors.T).float()


def _images(held_out: int, setting: Setting) -> Split:
    """The last cell's images are kept, because the next cell usually has the same."""
    key = f"leaking adadp: {held_out}"
    if key not in setting.kept:
        setting.kept.clear()
        setting.kept[key] = mnist(setting.data, held_out=held_out)
    found: Split = setting.kept[key]
    return found


def _joined(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([one.flatten() for one in tensors])


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=like.dtype)


def _with_one(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
