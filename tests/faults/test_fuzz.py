"""A sample of the odd command lines and files of `benchmarks/faults.py`."""

import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).parents[2] / "benchmarks" / "faults.py"


def test_thirty_odd_inputs_keep_to_the_rule() -> None:
    done = subprocess.run(
        [sys.executable, str(FUZZER), "--tries", "30", "--seed", "100000"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
