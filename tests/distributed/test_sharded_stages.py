"""Runs whose weights are shared out go on from a checkpoint with any number of processes, and are published."""

from pathlib import Path

import pytest
from forked import forked

from discreet import verify

STAGES = (
    ((2, "fully"), (1, "replicate"), (3, "fully")),
    ((4, "fully"), (2, "fully"), (1, "fully")),
    ((1, "replicate"), (4, "fully"), (2, "replicate")),
)
"""Numbers of processes, and what each keeps of the weights, for two steps each."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A digest of the weights of one process that took all steps with the whole model, and never stopped."""
    return forked(1, "sharded_stages.py", str(tmp_path_factory.mktemp("whole") / "run"), "replicate", "6")


@pytest.mark.parametrize("stages", STAGES)
def test_a_run_goes_on_with_other_processes_and_other_shards(
    tmp_path: Path, whole: str, stages: tuple[tuple[int, str], ...]
) -> None:
    """The weights at the end are the same, bit for bit; there is one checkpoint, of as many parts as had a share."""
    said = [
        forked(processes, "sharded_stages.py", str(tmp_path), shard, str(2 * number))
        for number, (processes, shard) in enumerate(stages, start=1)
    ]
    assert said == ["", "", whole]
    assert whole
    processes, shard = stages[-1]
    parts = list((tmp_path / "run").glob("checkpoint-6-*.safetensors"))
    assert len(parts) == len(list((tmp_path / "run").glob("checkpoint-*"))) == (processes if shard == "fully" else 1)


def test_adapters_on_a_base_that_is_shared_out_are_published_and_verified(tmp_path: Path) -> None:
    forked(2, "sharded_stages.py", str(tmp_path), "publish", imports=("peft",))
    assert verify(tmp_path / "model").accepted
