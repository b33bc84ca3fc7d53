"""A plan and settings to start from for the fine-tuning of a language model, each from a published rule.

Nothing here looks at data. The rules were found on RoBERTa and GPT-2, with batches of about a thousand rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.plan.plan import Plan
from discreet.plan.suggest.suggest_plan import suggest

MOST_EPOCHS = 10.0
"""Passes over the data, as Li et al. take on E2E."""

_LI = "Li et al. 2022, Large language models can be strong differentially private learners"
_YU = "Yu et al. 2022, Differentially private fine-tuning of language models"
_BU = "Bu et al. 2023, Automatic clipping"


@dataclass(frozen=True, slots=True)
class _Rule:
    """The settings of a paper for a task: of adapters their rank and learning rate, of all weights the learning
    rate."""

    rank: int
    adapter_rate: float
    whole_rate: float


_RULES = {"causal-lm": _Rule(4, 4e-4, 2e-3), "classification": _Rule(16, 1e-3, 5e-4)}

_ADAPTER_NORM, _WHOLE_NORM = 1.0, 0.1


@dataclass(frozen=True, slots=True)
class LanguageSuggestion:
    """A calibrated plan of Poisson batches, its number of epochs, the learning rate of Adam, the rank of LoRA (None:
    all weights are trained), and the reasons."""

    plan: Plan
    epochs: float
    learning_rate: float
    rank: int | None
    reasons: tuple[str, ...]

    @property
    def options(self) -> str:
        """The same as options of `discreet train`."""
        plan = self.plan
        values = {
            "batch": f"{plan.expected_batch:.6g}",
            "steps": str(plan.steps),
            "clip_norm": f"{plan.clipping.first_norm:g}",
            "learning_rate": f"{self.learning_rate:g}",
        }
        adapters = [] if self.rank is None else [f"--lora {self.rank}"]
        return " ".join([*adapters, *(f"--set {name}={value}" for name, value in values.items())])


def suggest_language(
    population: float,
    epsilon: float,
    delta: float | None = None,
    *,
    task: str,
    whole: bool = False,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    most_epochs: float = MOST_EPOCHS,
) -> LanguageSuggestion:
    """Suggest batch, steps, clip norm, learning rate and rank for a declared public `population` and a budget.

    `task`: "causal-lm" or "classification". `whole`: train all weights, and no adapters. `most_epochs`: passes over the
    data that there is time for. Errors as those of `suggest`.
    """
    if task not in _RULES:
        raise InputError(f"there are rules for {' and '.join(_RULES)}, got {task!r}; leave --task out for other models")
    rule = _RULES[task]
    norm = _WHOLE_NORM if whole else _ADAPTER_NORM
    found = suggest(
        population, epsilon, delta, adjacency=adjacency, most_epochs=most_epochs, poisson=True, clip_norm=norm
    )
    reasons = [*found.reasons[:-1], *_why(rule, whole, norm, found.plan.expected_batch)]
    rate, rank = (rule.whole_rate, None) if whole else (rule.adapter_rate, rule.rank)
    return LanguageSuggestion(found.plan, found.epochs, rate, rank, tuple(reasons))


def _why(rule: _Rule, whole: bool, norm: float, batch: float) -> list[str]:
    large = (
        f"large batches: at one number of epochs they lower the noise of the average ({_LI}, section 3.1; they take "
        "about 1,000 rows)"
    )
    if batch < 500:
        large += f"; {batch:.6g} is far from that, and what follows is less sure"
    if whole:
        return [
            large,
            f"clip norm {norm:g}, below the lengths of nearly all gradients: each then weighs alike, and Adam undoes "
            f"the scale ({_LI}, section 3.1); automatic clipping does the same without a norm ({_BU})",
            f"learning rate {rule.whole_rate:g} of Adam without weight decay, several times that without privacy "
            f"({_LI})",
            "all weights: no rank; adapters reach about the same accuracy with less memory (" + _YU + ")",
        ]
    return [
        large,
        f"clip norm {norm:g} ({_YU}, GPT-2; they take up to 10 for RoBERTa)",
        f"learning rate {rule.adapter_rate:g} of Adam ({_YU}); try twice and half of it on public texts",
        f"rank {rule.rank} of LoRA on all linear layers ({_YU}, on those of attention)",
    ]
