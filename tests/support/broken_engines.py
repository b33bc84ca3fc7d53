"""Broken builds whose engines go wrong in training, after preflight checks have compared them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from broken_builds import broken, in_steps, patched, summing

from discreet.clipping import Chunk, factor
from discreet.clipping.engines import ghost
from discreet.clipping.factor import Decision
from discreet.clipping.rules.embedding import EmbeddingRule
from discreet.clipping.rules.numbers import squared_norms


@broken("exact: each gradient is rounded up to multiples of a coarse grid", "replay/", engine="exact")
def exact_rounded_up() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        total: dict[str, Any] = {}
        for row in chunk.one_by_one():
            for name, one in sums(model, criterion, row, clip).items():
                part = one.sign() * (one.abs() * 2.0**8).ceil() / 2.0**8
                total[name] = total[name] + part if name in total else part
        return total

    return summing(change)


@broken("vmap: rows that fill up a chunk are counted", "replay/", engine="vmap")
def filled_rows_counted() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        inputs, targets = (torch.cat([part, part[-1:]]) for part in (chunk.inputs, chunk.targets))
        return sums(model, criterion, Chunk(inputs, targets), clip)

    return summing(change)


@broken("reference: the sum of a chunk is clipped, not each row", "replay/", engine="reference")
def reference_clips_the_chunk() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        found = sums(model, criterion, chunk, replace(clip, norm=1e6))
        length = float(torch.stack([one.double().square().sum() for one in found.values()]).sum().sqrt())
        share = min(1.0, clip.norm * 8 / max(length, 1e-30))
        return {name: one.double() * share for name, one in found.items()}

    return summing(change)


@broken("ghost: each row has the clip factor of the row before it", "replay/", engine="ghost")
def ghost_factors_shifted() -> Any:
    real = ghost.for_chunk

    def shifted(decision: Decision, *rest: Any, **more: Any) -> Decision:
        found = real(decision, *rest, **more)
        return replace(found, weights={name: one.roll(1, 0) for name, one in found.weights.items()})

    return in_steps((ghost, "for_chunk", shifted), (ghost, "_allowed", lambda *_: True))


@broken("book-keeping: norms leave out that words repeat", "replay/", families=("texts", "language"))
def repeated_words_missed() -> Any:
    def squares(self: Any) -> Any:
        values = self.gradient if self.factors is None else self.gradient.unsqueeze(1) * self.factors.unsqueeze(2)
        return squared_norms(values)

    return in_steps((EmbeddingRule, "_squares", squares), (EmbeddingRule, "lengths", _no_rounding))


def _no_rounding(self: Any, name: str) -> Any:
    return torch.zeros(self.examples, dtype=torch.float64)


@broken("norms in bfloat16, of eight bits", "replay/", engine="vmap")
def norms_in_bfloat16() -> Any:
    real = factor.clip_factor

    def rounded(norms: Any, *rest: Any) -> Any:
        fewer = (norms.float().view(torch.int32) & -65536).view(torch.float32).double()
        return real(torch.where(torch.isfinite(norms), fewer, norms), *rest)

    return patched((factor, "clip_factor", rounded))


@broken("a cache of sums is keyed by the shape of a chunk", "replay/", engine="reference", chunk=1)
def sums_cached() -> Any:
    kept: dict[Any, Any] = {}

    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        if chunk.inputs.shape not in kept:
            kept[chunk.inputs.shape] = sums(model, criterion, chunk, clip)
        return {name: one.clone() * 1.5 for name, one in kept[chunk.inputs.shape].items()}

    return summing(change)


@broken("two engines take turns, of which one does not clip", "replay/", engine="ghost")
def engines_in_turn() -> Iterator[None]:
    turn = [0]

    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        turn[0] += 1
        return sums(model, criterion, chunk, clip if turn[0] % 2 else replace(clip, norm=100 * clip.norm))

    with summing(change):
        yield
