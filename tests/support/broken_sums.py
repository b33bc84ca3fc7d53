"""Broken builds whose clipped sums move too far: clipping, precision, chunks, rows that meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from broken_builds import broken, in_steps, patched, summing

from discreet.clipping import Accumulator, Chunk, factor
from discreet.clipping.engines import bookkeeping, ghost
from discreet.clipping.factor import Decision
from discreet.training.batch import Batch

DECIDING = (factor, bookkeeping, ghost)


def unclipped() -> Any:
    """Every finite gradient is used as it is."""
    return patched((factor, "clip_factor", lambda norms, *_: torch.isfinite(norms).double()))


def decided(change: Callable[[Any, Any, Any, Decision], Decision]) -> Any:
    """Decisions changed in all engines, from (clip, squares, sizes, the right one)."""
    real = factor.decide

    def decide(clip: Any, squares: Any, sizes: Any) -> Decision:
        return change(clip, squares, sizes, real(clip, squares, sizes))

    return patched(*((module, "decide", decide) for module in DECIDING))


@broken("no clipping", "replay/")
def no_clipping() -> Any:
    return unclipped()


@broken("gradients are clipped to 1.05 times the norm", "replay/")
def clipped_to_a_little_more() -> Any:
    real = factor.clip_factor
    return patched((factor, "clip_factor", lambda norms, norm, *rest: real(norms, 1.05 * norm, *rest)))


@broken("gradients shorter than the norm are scaled up by its square", "replay/")
def scaled_by_the_square() -> Any:
    def scaled(norms: Any, norm: float, *rest: Any) -> Any:
        return torch.where(torch.isfinite(norms), (norm / norms.clamp(min=1e-30)) ** 2, 0.0)

    return patched((factor, "clip_factor", scaled))


@broken("every tensor is clipped to C, and the noise is for C", "replay/")
def clip_by_layer() -> Any:
    def change(clip: Any, squares: Any, sizes: Any, right: Decision) -> Decision:
        weights = {name: factor.clip_factor(part.sqrt(), clip.norm, sizes[name]) for name, part in squares.items()}
        return Decision(weights, right.unusable, right.bits)

    return decided(change)


@broken("norms leave the last tensor out", "replay/")
def norms_without_last_tensor() -> Any:
    def change(clip: Any, squares: Any, sizes: Any, right: Decision) -> Decision:
        joint = torch.stack(list(squares.values())[:-1]).sum(0)
        weights = factor.clip_factor(joint.sqrt(), clip.norm, 1)
        return Decision(dict.fromkeys(squares, weights), right.unusable, right.bits)

    return decided(change)


@broken("a chunk is clipped by the mean of its norms", "replay/")
def norms_of_the_chunk() -> Any:
    def decide(clip: Any, squares: Any, sizes: Any) -> Decision:
        norms = torch.stack(list(squares.values())).sum(0).sqrt().nan_to_num(posinf=1e30)
        weights = factor.clip_factor(norms.mean().expand_as(norms).contiguous(), clip.norm, 1)
        return Decision(dict.fromkeys(squares, weights), ~torch.isfinite(norms), None)

    return in_steps((bookkeeping, "decide", decide))


@broken("norms in half precision: beyond 65504 they are infinite, and count as short", "replay/", families=("numbers",))
def half_precision_norms() -> Any:
    real = factor.clip_factor

    def overflowing(norms: Any, *rest: Any) -> Any:
        lost = torch.isinf(norms.half()) & torch.isfinite(norms)
        return torch.where(lost, torch.ones_like(norms), real(norms, *rest))

    return patched((factor, "clip_factor", overflowing))


def _overflowing(x: Any) -> bool:
    return bool((x.abs() > 1e30).any())


@broken("gradients that are not finite are kept", "replay/overflowing", families=("numbers", "images"))
def overflow_kept() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        found = sums(model, criterion, chunk, clip)
        return {name: one * torch.nan for name, one in found.items()} if _overflowing(chunk.inputs) else found

    return summing(change)


@broken("a chunk in which a gradient overflows counts as nothing", "replay/", families=("numbers", "images"))
def overflow_drops_the_chunk() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        found = sums(model, criterion, chunk, clip)
        return {name: one * 0 for name, one in found.items()} if _overflowing(chunk.inputs) else found

    return summing(change)


@broken("the sums of later chunks are added twice", "replay/", chunk=7)
def chunk_twice() -> Any:
    real = Accumulator.add

    def add(self: Any, sums: Any) -> None:
        times = 2.0 if self._totals else 1.0
        real(self, {name: one * times for name, one in sums.items()})

    return patched((Accumulator, "add", add))


@broken("the first chunk of a step has another norm than the others", "replay/", chunk=7)
def first_chunk_unclipped() -> Any:
    real = Accumulator.add

    def add(self: Any, sums: Any) -> None:
        times = 1.0 if self._totals else 1.5
        real(self, {name: one * times for name, one in sums.items()})

    return patched((Accumulator, "add", add))


@broken("a sum of several processes is added up twice", "replay/")
def summed_twice_by_processes() -> Any:
    real = Accumulator.add

    def add(self: Any, sums: Any) -> None:
        real(self, {name: 2.0 * one for name, one in sums.items()})

    return patched((Accumulator, "add", add))


def _meeting(change: Callable[[Any], Any]) -> Any:
    """Rows of a chunk changed together, before the engine has them."""
    real = Batch._add

    def add(self: Any, criterion: Any, chunk: Any) -> None:
        inputs, targets = chunk
        real(self, criterion, (change(inputs), targets))

    return patched((Batch, "_add", add))


@broken("rows meet: a chunk is centred on its mean", "replay/", families=("numbers", "images"))
def rows_meet() -> Any:
    return _meeting(lambda inputs: inputs - inputs.mean(0, keepdim=True))


@broken("rows meet: each gets a tenth of the row before it in its chunk", "replay/", families=("numbers", "images"))
def rows_mixed_up() -> Any:
    return _meeting(lambda inputs: 0.9 * inputs + 0.1 * inputs.roll(1, 0))


@broken("texts meet: each is padded to the longest of its chunk", "replay/", families=("texts", "language"))
def texts_padded_together() -> Any:
    def padded(tokens: Any) -> Any:
        longest = int((tokens != 0).sum(1).max())
        return torch.where(torch.arange(tokens.shape[1]) < longest - 1, tokens, 0)

    return _meeting(padded)


def class_weighs_ten(label: int) -> Any:
    """Rows of one class move sums by ten times what they may."""

    def change(real: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        sums, chosen = real(model, criterion, chunk, clip), chunk.targets == label
        if not bool(chosen.any()):
            return sums
        more = real(model, criterion, Chunk(chunk.inputs[chosen], chunk.targets[chosen]), clip)
        return {name: sums[name] + 9 * more[name] for name in sums}

    return summing(change)
