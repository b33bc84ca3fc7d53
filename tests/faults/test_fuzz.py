"""A sample of the odd command lines and files of `benchmarks/faults.py`, and all that broke the rule once."""

import subprocess
import sys
from pathlib import Path

from fault_corpus import entries

FUZZER = Path(__file__).parents[2] / "benchmarks" / "faults.py"


def test_thirty_odd_inputs_keep_to_the_rule_and_so_does_what_broke_it_once() -> None:
    """In one process, since making the models that inputs change takes longer than trying these inputs."""
    done = subprocess.run(
        [sys.executable, str(FUZZER), "--corpus", "--tries", "30", "--seed", "100000"],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert f"{len(entries())} kept inputs, 0 against the rule" in done.stdout
    assert "30 tries, 0 against the rule" in done.stdout
    assert len(entries()) >= 51
