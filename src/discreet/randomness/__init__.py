"""Randomness as an argument: the keyed stream, its test double, normals drawn from it, and the run key's file."""

from discreet.randomness.keyfile import destroy_key, load_key, new_run_key, save_key
from discreet.randomness.normal import ASSUMPTION, normals
from discreet.randomness.stream import Purpose, Stream, Substream, SystemStream, TestStream

__all__ = [
    "ASSUMPTION",
    "Purpose",
    "Stream",
    "Substream",
    "SystemStream",
    "TestStream",
    "destroy_key",
    "load_key",
    "new_run_key",
    "normals",
    "save_key",
]
