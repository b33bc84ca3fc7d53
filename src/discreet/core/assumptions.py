"""What a claim rests on beside its theorem, in the words that certificates cite and the verifier expects."""

from __future__ import annotations

GENERAL = (
    "The state that training starts from (plan.initial_state), every figure of the plan, and the data that public "
    "metrics are computed on are public.",
    "Each row of the data set is one unit.",
    "What the model computes for an example depends on parameters, buffers, that example and fresh random numbers "
    "only; random numbers of the model (dropout) come from torch's generator, seeded for each step with secret bits, "
    "and are taken to be ideal.",
    "When a run is interrupted does not depend on the data, nor does the outcome of the checks before its first step.",
)

ADAPTIVE = (
    "What decided the steps of the run saw released values, bought counts and public facts only, and the prediction "
    "for a single example, computed alone, is the same on every call.",
)
"""For a run whose events were chosen on the way."""

_CHUNKS = (
    "Floating point, an assumption about this data and not a theorem: how a batch is cut into chunks changes its "
    "clipped gradients, as computed, by at most 2^-20 of the clip norm per example on average; the sensitivity is "
    "enlarged by twice that for every example of the largest batch. Rows made for the purpose, which sit where "
    "rounding decides the branch of a ReLU, can break it. The engine 'exact' does not need this."
)

ENGINES = {
    "vmap": _CHUNKS,
    "reference": _CHUNKS,
    "exact": "Floating point: the gradient of a single example, computed alone, is the same on every call. Sums are "
    "exact.",
}
"""By name of the engine."""
