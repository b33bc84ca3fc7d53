"""Runs whose weights are shared out go on from a checkpoint with any number of processes, and are published."""

from pathlib import Path

from forked import forked

from discreet import verify


def test_a_run_goes_on_with_other_processes_and_other_shards(tmp_path: Path) -> None:
    """The weights at the end are those of one process that took all steps with the whole model."""
    whole = forked(1, "sharded_stages.py", str(tmp_path / "whole"), "replicate", "6")
    stages = str(tmp_path / "stages")
    assert forked(2, "sharded_stages.py", stages, "fully", "2") == ""
    assert forked(1, "sharded_stages.py", stages, "replicate", "4") == ""
    assert forked(3, "sharded_stages.py", stages, "fully", "6") == whole != ""


def test_adapters_on_a_base_that_is_shared_out_are_published_and_verified(tmp_path: Path) -> None:
    forked(2, "sharded_stages.py", str(tmp_path), "publish", imports=("peft",))
    assert verify(tmp_path / "model").accepted
