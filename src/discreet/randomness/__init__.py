"""Randomness as an argument: the keyed stream and its test double, normals, grid noise and the file of the run key."""

from discreet.randomness.exact import EXACT_ASSUMPTION, exact_rounded_normals
from discreet.randomness.keyfile import destroy_key, load_key, new_run_key, save_key
from discreet.randomness.normal import ASSUMPTION, normals
from discreet.randomness.rounded import FAST_ASSUMPTION, NOISE_SAMPLERS, RoundedSampler, fast_rounded_normals
from discreet.randomness.stream import Purpose, Stream, Substream, SystemStream, TestStream, attempt_key

__all__ = [
    "ASSUMPTION",
    "EXACT_ASSUMPTION",
    "FAST_ASSUMPTION",
    "NOISE_SAMPLERS",
    "Purpose",
    "RoundedSampler",
    "Stream",
    "Substream",
    "SystemStream",
    "TestStream",
    "attempt_key",
    "destroy_key",
    "exact_rounded_normals",
    "fast_rounded_normals",
    "load_key",
    "new_run_key",
    "normals",
    "save_key",
]
