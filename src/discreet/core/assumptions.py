"""What a claim rests on beside its theorem, in the words that certificates cite and the verifier expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.core.adjacency import Unit

_UNITS = {
    Unit.EXAMPLE: "Each row of the data set is one unit, and is made from the record of that unit alone.",
    Unit.USER: "Rows with the same identifier are one unit, and are made from its records alone; identifiers are as "
    "the data's holder gives them.",
}

_GENERAL = (
    "The state that training starts from (plan.initial_state), every figure of the plan, and the data that public "
    "metrics are computed on are public; what model.json says is public or computed from releases.",
    "What the model and the loss compute for an example, forward and backward, depends on parameters, buffers, that "
    "example and fresh random numbers only; random numbers of the model (dropout) come from torch's generator, seeded "
    "for each step with secret bits, and are taken to be ideal.",
    "When a run is interrupted does not depend on the data, nor does the outcome of the checks before its first step.",
)


def general(unit: Unit) -> tuple[str, ...]:
    """The assumptions of every claim about this kind of unit."""
    public, *others = _GENERAL
    return public, _UNITS[unit], *others


ADAPTIVE = (
    "What decided the steps of the run saw released values, bought counts and public facts only, and the prediction "
    "for a single example, computed alone, is the same on every call.",
)
"""For an adaptive run, whose events were chosen during training."""

_BITS = (
    "Floating point, an assumption about this data and not a theorem: near the clip norm, how a batch is cut into "
    "chunks changes the length of a gradient, as computed, by at most 2^-{bits} of the clip norm per unit on average; "
    "the sensitivity is enlarged by what that moves the bits. The engine 'exact' does not need this."
)

_SCALES = (
    "The scales that gradients are divided by before they are clipped are public: fixed before the data was seen, or "
    "computed from releases and public values only."
)


def clipping(rule: Mapping[str, Any], bits: int | None) -> tuple[str, ...]:
    """Assumptions of a clip rule that releases bits or has scales; the engine's float slack is 2^-`bits`."""
    if "bit_multiplier" in rule:
        return () if bits is None else (_BITS.format(bits=bits),)
    return (_SCALES,) if "scales" in rule else ()


METRICS = (
    "The prediction and the loss of a single private example, computed alone for a metric that was bought, are the "
    "same on every call.",
)
"""For a run with private metrics."""

HOLDOUT = (
    "Which rows are held out is decided for each unit by its own identifier alone, as the data's holder gives it; a "
    "unit keeps its identifier whatever other units there are, and no row of a unit that is held out is trained on.",
)
"""For a run that holds rows out of training."""


_LANES = (
    "Several processes may have taken the steps together, each for some of the {lanes} lanes of every batch. Each of "
    "them is trusted with the private data and the key of the noise, and nobody else reads the messages between them. "
    "How many they were is no part of the claim: they add sums in whole numbers, which is the same in any order. All "
    "compute the same function of a row, up to the rounding declared here, as a unit that joins a batch moves those "
    "after it to other lanes; before each charge that is compared on one random unit, and it is not proved."
)


_SITES = (
    "The data lies at {sites} sites, each read by one process. Each drew for its own units alone, with random bits "
    "of its own, and they were a lane. All rows of a unit lie at one site, as the holders of the data say: no row is "
    "compared with those of another site, and a unit with rows at two would be protected as two units."
)


def lanes(count: int | None, sites: int | None = None) -> tuple[str, ...]:
    """The assumptions on lanes and on sites, by how many there are; none for a run in one process."""
    found = () if count is None else (_LANES.format(lanes=count),)
    return found if sites is None else (*found, _SITES.format(sites=sites))


CHOICE = (
    "ideal continuous Gumbel, exponential and Laplace samplers: noise of choices is computed in float64 from 64-bit "
    "words of an AES-256-CTR stream, relative error below 2^-48, on a grid of 2^64 equally likely points; scores are "
    "rounded to float64 once before noise is added. Only the index of a public candidate is released."
)
"""What a choice rests on beside its theorem."""

_LOSSES = (
    "Floating point, an assumption about this data and not a theorem: how rows are cut into chunks changes their "
    "clipped losses, as computed, by at most 2^-{bits} of their bound per row on average; what choices of step sizes "
    "have noise for is enlarged by four times that for every row of the data. The engine 'exact' does not need this."
)

_LOSSES_ALONE = (
    "The loss of a single private row, computed alone for the choice of a step size, is the same on every call."
)


def choices(searches: bool, bits: int | None) -> tuple[str, ...]:
    """Assumptions of a run's line search, () if not `searches`; the engine's float slack is 2^-`bits`, none if None."""
    if not searches:
        return ()
    return CHOICE, _LOSSES_ALONE if bits is None else _LOSSES.format(bits=bits)


ODOMETER = (
    "What is said ex post leaves out batches beyond the largest that the float slack is for; one occurs with "
    "probability at most 1e-100 in a step.",
)
"""For a run with an odometer."""


TRIALS = (
    "ideal sampler of the number of trials: K is drawn by inversion of its distribution function in float64, so that "
    "its probabilities are off by less than 2^-45 in all."
)
"""What a search rests on beside its theorem."""

SEARCH = (
    TRIALS[0].upper() + TRIALS[1:],
    "How many trials there were, which trials lost, and how long the search took are not released.",
)
"""For the best of a secret number of runs."""

PARTS = (
    "Which part of the data a unit is in is decided by its own identifier alone, as the data's holder gives it; a unit "
    "keeps its identifier whatever other units there are. Each candidate was trained on its own part, the choice read "
    "the last one, and what either computes on its part does not depend on the others' rows.",
    "The prediction and the loss of a single private example, computed alone for the choice among candidates, are the "
    "same on every call.",
    CHOICE,
    "The candidates that lost, the scores and the sizes of the parts are not released.",
)
"""For a choice among candidates that were trained on disjoint parts of the data."""

SEARCHES = {"": (), "random_stopping": SEARCH, "parts": PARTS}
"""Assumptions by kind of search; "" stands for no search."""

INDIVIDUAL = (
    "Each unit's own loss was filtered: in each period (plan.sampling.period) a unit took part in a step only if the "
    "squares of the lengths of what it had added to the sums so far, this step included and each relative to the "
    "sensitivity of its step, were at most plan.sampling.full in all. Each length is that of what the unit alone adds, "
    "rounded up. Then a period reveals no more of a unit than plan.sampling.full steps at full length (Feldman and "
    "Zrnic 2021; Koskela, Tobaben and Honkela 2022).",
    "Which units took part in a step, how many did, and what each has spent are not released.",
)
"""For a run in which each unit has a budget of its own."""

BEFORE = (
    "What was answered before the first step (plan.before) was about the rows of the run, each of which alone was "
    "bounded as its query says, with noise from the same generator as that of the steps.",
)
"""For a run that answers queries before its first step."""


def of_run(
    *,
    adaptive: bool,
    metrics: bool,
    holdout: bool,
    odometer: bool,
    before: bool,
    search: str = "",
    individual: bool = False,
) -> tuple[str, ...]:
    """Assumptions that follow from what a run did; `search` is its kind of search, a key of `SEARCHES`."""
    said = (
        (ADAPTIVE, adaptive),
        (METRICS, metrics),
        (HOLDOUT, holdout),
        (ODOMETER, odometer),
        (BEFORE, before),
        (SEARCHES[search], True),
        (INDIVIDUAL, individual),
    )
    return tuple(sentence for sentences, holds in said if holds for sentence in sentences)


def public_rows(declared: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Assumptions if the gradient of public rows joins every step; `declared` describes the rows, None for none."""
    if declared is None:
        return ()
    return (
        f"The {declared['rows']} rows with SHA-256 {declared['sha256']} are public. The exact mean gradient of "
        f"{declared['batch']} of them, with weight {declared['weight']!r}, joins the noisy mean of every step.",
    )


def canaries(declared: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The assumption on canaries among the rows; `declared` is their section of the certificate, None for none."""
    if declared is None:
        return ()
    return (
        f"{declared['count']} of the units are canaries: made-up texts with SHA-256 {declared['sha256']}, each a row "
        "of its own. They are public, no records of anybody, and were drawn and clipped as all others; neighbouring "
        "data sets have them alike.",
    )


def base_model(declared: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The assumption on the model below adapters; `declared` names it and its hash, None if there are no adapters."""
    if declared is None:
        return ()
    revision = "" if declared["revision"] is None else f", revision {declared['revision']},"
    return (
        f"The base model {declared['name']}{revision} with weights of SHA-256 {declared['sha256']} is public. How it "
        "was trained is outside of this claim, which is about the adapters alone.",
    )


_WARM_START = (
    "Training started from weights that other private runs released, which are named here (warm_start). The claim is "
    "about this run alone and takes those weights as public: what a unit in the data of several of these runs gives "
    "away adds up."
)


def warm_start(earlier: Sequence[object] | None) -> tuple[str, ...]:
    """The assumption on weights that `earlier` private runs released; () if there are none."""
    return (_WARM_START,) if earlier else ()


_TRIED = (
    "Where it could be measured before the first step, 2^-{bits} is at least eight times what was found, on random "
    "rows: uniform, zero, constant, nearly constant, sparse, of both signs and faint ones, in several sizes. A unit "
    "with a larger number than those is computed one row at a time; of it, only that the gradient of a row computed "
    "alone is the same on every call is assumed. Rows made for the purpose, whose gradients cancel or which sit where "
    "rounding decides the branch of a ReLU, can break it. The engine 'exact' does not need this."
)

_CHUNKS = (
    "Floating point, an assumption about this data and not a theorem: how a batch is cut into chunks changes its "
    "clipped gradients, as computed, by at most 2^-{bits} of the clip norm per unit on average; the sensitivity is "
    "enlarged by twice that for every unit of the largest batch. " + _TRIED
)

_TOGETHER = (
    "The modules of the model and the loss treat every example as if it were alone in its batch, forward and backward. "
    "(Checked before the first step by type and, on random data, by changing examples one at a time.) "
)

_ENGINES = {
    "bookkeeping": _TOGETHER
    + "Floating point, an assumption about this data and not a theorem: the sum of a chunk, as computed in one pass "
    "over all of its examples, differs by at most 2^-{bits} of the clip norm per unit on average from a sum of terms "
    "that depend on one unit each and are not longer than the clip norm; the sensitivity is enlarged by twice that for "
    "every unit of the largest batch. " + _TRIED,
    "ghost": _TOGETHER
    + "Floating point, an assumption about this data and not a theorem: the sum of a chunk, as computed in a second "
    "pass that measures again what it adds up, differs by at most 2^-{bits} of the clip norm per unit on average from "
    "a sum of terms that depend on one unit each and are not longer than the clip norm; the sensitivity is enlarged by "
    "twice that for every unit of the largest batch. " + _TRIED,
    "vmap": _CHUNKS,
    "reference": _CHUNKS,
    "exact": "Floating point: the gradient of a single example, computed alone, is the same on every call. Sums are "
    "exact.",
}

IDEAL_NORMAL = (
    "ideal continuous Gaussian sampler: noise is drawn by the ziggurat method, in float64, from 64-bit words of an "
    "AES-256-CTR stream and is taken to be independent and exactly normal. Known differences: rounding below "
    "2^-47 standard deviations per value; a density that is that of a normal up to a factor within 2^-48 of 1; "
    "2^53 equally likely points in each of 1024 layers; beyond 4.03 standard deviations, distances from 2^64 equally "
    "likely points, and no value beyond 13.54, which an ideal normal passes with probability below 2^-128."
)

NOISE: Mapping[str, str] = {
    "fast": f"{IDEAL_NORMAL} The product of scale and value is rounded to float64 once more (less than 2^-53 of it), "
    "and then to the nearest integer.",
    "exact": "exact sampler: noise has exactly the law of a normal rounded to the grid, if the words of the "
    "AES-256-CTR stream are independent and uniform; it is computed in integers, and no floating-point rounding "
    "takes part.",
}
"""The assumption of each noise sampler, by name."""

ENGINES = tuple(_ENGINES)
"""The names of the engines."""

MOST_BITS, LEAST_BITS = 20, 6
"""An engine's float slack is 2^-bits of the clip norm per unit; the number of bits is measured before a run."""


def engine(name: str, bits: int | None) -> str:
    """The assumption of the engine `name` with a float slack of 2^-`bits` of the clip norm (None: no slack)."""
    return _ENGINES[name].format(bits=bits)


def known_engine(name: object, bits: object) -> bool:
    """Whether `name` is an engine and `bits` a float slack it may have: None for 'exact', else within the limits."""
    if name == "exact":
        return bits is None
    return name in _ENGINES and type(bits) is int and LEAST_BITS <= bits <= MOST_BITS
