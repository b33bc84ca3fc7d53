"""Freed memory stays with the process once it was asked to keep it: counted in page faults, not in seconds."""

import json
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import json, resource, sys
import numpy as np
from discreet.core.processes import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()
faults = []
for _ in range(5):  # of 45 MiB, all of which are written to and freed
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    parts = [np.ones(15 << 17) for _ in range(3)]
    del parts
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(json.dumps(faults))
"""


def faults(how: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    found: list[int] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator takes the hint")
def test_memory_that_was_freed_is_touched_for_the_first_time_once() -> None:
    kept, returned = faults("keep"), faults("return")
    assert kept[0] > 0
    assert 20 * sum(kept[1:]) < sum(returned[1:])


def test_asking_again_costs_nothing_and_changes_nothing() -> None:
    from discreet.core.processes import keep_freed_memory

    assert keep_freed_memory() is keep_freed_memory() is None
    assert keep_freed_memory.cache_info().currsize == 1
