"""Canaries: made-up texts among the training rows, and how well the released model knows them afterwards.

They are public, and rows like all others: counted in the population, drawn, clipped. What is computed of them is
computed from the released model and public texts, so it costs nothing more. It is evidence beside the guarantee, which
also bounds it: see `Exposed` and the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discreet.certificate.declared_canaries import DeclaredCanaries
from discreet.certificate.described import Exposed
from discreet.clipping import evaluation_mode
from discreet.clipping.losses import each_loss
from discreet.core import checks
from discreet.core.errors import InputError
from discreet.language.transformers_model import TransformersModel

MOST_DIGITS, MOST_LETTERS = 15, 1900


@dataclass(frozen=True, slots=True)
class Canaries:
    """`inserted`: the texts to put among the training rows, each a row and a unit of its own. `others`: texts that
    might have been chosen in the place of any of them, and are not trained on."""

    inserted: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def declared(self) -> DeclaredCanaries:
        """Their declaration for the certificate: give it to `Training` as `PublicData(canaries=...)`."""
        return DeclaredCanaries.of(self.inserted, len(self.others))

    @classmethod
    def made_up(cls, template: str, *, count: int = 5, others: int = 1000, digits: int = 6, seed: int = 0) -> Canaries:
        """Texts with numbers of `digits` digits, all different, in the place of `{}` in `template`.

        Numbers are drawn by a public `seed`, so which of them are inserted is left to chance alone.
        """
        for name, value in (("count", count), ("others", others), ("digits", digits)):
            checks.count(name, value)
        if template.count("{}") != 1:
            raise InputError(f"template must have one {{}} in the place of the number, got {template!r}")
        if len(template) > MOST_LETTERS:
            raise InputError(f"template must have at most {MOST_LETTERS} letters, got {len(template)}")
        if digits > MOST_DIGITS or 10**digits < 2 * (count + others):
            raise InputError(
                f"digits must be at most {MOST_DIGITS}, and enough for twice as many numbers as there are texts "
                f"({count + others}), got {digits}"
            )
        draws, numbers = np.random.default_rng(seed), dict[int, None]()
        while len(numbers) < count + others:
            numbers[int(draws.integers(10**digits))] = None
        texts = [template.replace("{}", f"{number:0{digits}}") for number in numbers]
        return cls(tuple(texts[:count]), tuple(texts[count:]))


def exposures(
    model: TransformersModel,
    canaries: Canaries,
    encode: Callable[[Sequence[str]], tuple[Tensor, Tensor]],
    chunk: int = 50,
) -> tuple[Exposed, ...]:
    """For each inserted text, on how many of the others the released model's loss is as small or smaller.

    `model`: a causal model as it was released. `encode`: texts to the inputs and targets that the model was trained on,
    such as `TransformersRows(...).tensors()`. `chunk`: texts at a time. The loss is the sum over the tokens of a text
    (Carlini et al. 2019, The Secret Sharer).
    """
    checks.count("chunk", chunk)
    if not model.task.shifted:
        raise InputError(f"canaries are texts that a causal model continues; this one is for {model.task.name}")
    if not canaries.inserted or not canaries.others:
        raise InputError("canaries need texts that were inserted, and others beside them")
    own, others = (_losses(model, texts, encode, chunk) for texts in (canaries.inserted, canaries.others))
    if not (own.isfinite().all() and others.isfinite().all()):
        raise InputError("the model's loss of a canary is not finite, so nothing can be said of it")
    return tuple(
        Exposed(text=text, better=int((others <= loss).sum()), others=len(others))
        for text, loss in zip(canaries.inserted, own, strict=True)
    )


def _losses(
    model: TransformersModel,
    texts: Sequence[str],
    encode: Callable[[Sequence[str]], tuple[Tensor, Tensor]],
    chunk: int,
) -> Tensor:
    """The loss of each text, in the mode in which the model predicts."""
    loss, found = model.task.loss(reduction="sum"), []
    with torch.no_grad(), evaluation_mode(model):
        for start in range(0, len(texts), chunk):
            inputs, targets = encode(texts[start : start + chunk])
            found.append(each_loss(loss, model(inputs), targets).double())
    return torch.cat(found)
