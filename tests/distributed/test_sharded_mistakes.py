"""Mistakes and faults in runs whose weights are shared out: an error in every process, nobody waits, and nothing is
released for the step. What does not go with shards is refused in one line.
"""

from pathlib import Path
from typing import Any

import pytest
import sharded_runs
import torch
from forked import started
from met import check_met
from problems import tiny_plan
from sharded_models import WIDTH, OfQueries, Queries, gpt, seeded
from sharded_runs import digest_of, plan, texts
from torch import nn
from ways import SAMPLINGS, WAYS

from discreet.core.errors import DiscreetError
from discreet.methods import Averaging
from discreet.plan import Metric, Plan
from discreet.training import EarlyStopping, EngineOptions, PublicBatches, PublicData, Training

MET: dict[str, tuple[str, int]] = {
    "another_learning_rate": ("different weights", 0),
    "another_setting_of_the_loss": ("different gradients of the same random row", 0),
    "other_weights": ("another state of the model", 0),
    "another_order": ("another data", 0),
    "another_order_of_weights": ("another order of weights in the model or the optimizer", 0),
    "all_lanes_in_each": ("not added every drawn unit exactly once", 0),
    "a_chunk_left_out": ("a chunk of the step was not added", 1),
    "an_error_of_the_loop": ("failed with KeyError", 1),
    "changed_weights": ("changed by something that is not a release", 1),
    "memory_that_ends_in_a_pass": ("has ended or does not answer", 0),
    "a_process_that_is_gone_in_a_pass": ("has ended or does not answer", 1),
    "a_sum_that_is_no_number": ("not a number that fits its grid", 0),
    "a_model_that_fails_in_one_process": ("", 4),
    "a_backward_pass_of_the_loop": ("got a gradient that was not released", 0),
    "a_step_after_the_result": ("put together for its result", 1),
    "a_part_that_is_gone": ("no such file", 2),
    "a_part_that_was_changed": ("was changed, cut, or is of another checkpoint", 2),
    "a_part_that_cannot_be_written": ("failed with OSError", 4),
    "a_run_folder_that_one_process_does_not_see": ("process 1 does not see the run folder", 0),
}
"""What processes say, and how many steps were released before."""

OWN = {
    "an_error_of_the_loop": "KeyError",
    "a_part_that_cannot_be_written": "OSError",
    "memory_that_ends_in_a_pass": "MemoryError",
    "a_process_that_is_gone_in_a_pass": "gone",
}
"""The error of the second process, where it is its own."""

ENDED = ("memory_that_ends_in_a_pass", "a_process_that_is_gone_in_a_pass")
"""After these the processes are no team any more."""


def check(folder: Path, *mistakes: str) -> None:
    started(2, "sharded_mistakes.py", str(folder), *mistakes, timeout=240)
    for name in mistakes:
        check_met(folder, name, MET[name], OWN)


def test_a_mistake_ends_all_processes_and_a_failing_model_none(tmp_path: Path) -> None:
    check(tmp_path, *[name for name in MET if name not in ENDED])


@pytest.mark.parametrize("name", ENDED)
def test_nobody_waits_for_a_process_that_ends_in_the_middle_of_a_pass(tmp_path: Path, name: str) -> None:
    check(tmp_path, name)


class Temperature(nn.Module):
    """A trained parameter beside a module that has some of its own; its product with itself multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.log = gpt(), nn.Parameter(torch.ones(3))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.inner(tokens) * (self.log * self.log)


class Reaching(nn.Module):
    """A frozen layer whose weight is used outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.side = gpt(), nn.Linear(3, 3, bias=False).requires_grad_(requires_grad=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.inner(tokens), self.side.weight)


class Reading(nn.Module):
    """Python reads a number of the model in every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.by = gpt(), nn.Buffer(torch.tensor(0.5))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.inner(tokens) * float(self.by)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "engine": ({"engine": "exact"}, "the engine 'exact' needs all weights at once"),
    "adaptive clipping": (
        {"plan": plan(clip_norm=None, clipping=WAYS["adaptive"])},
        "clipping 'adaptive' keeps a state",
    ),
    "correlated noise": (
        {
            "plan": Plan.make(
                SAMPLINGS["cyclic"](40), population=40, steps=9, clip_norm=1.0, delta=1e-5, noise_multiplier=2
            )
        },
        "correlated noise keeps the sums of earlier steps",
    ),
    "metrics": (
        {"plan": tiny_plan(population=40, metrics=(Metric(kind="accuracy", noise=20.0, every=2),))},
        "private metrics are computed by the whole model",
    ),
    "public": (
        {"public": PublicBatches(*texts(), weight=0.5)},
        "a gradient of public rows is computed by the whole model",
    ),
    "averaging": ({"averaging": Averaging(0.9)}, "an average of iterates is a second model"),
    "optimizer": ({"optimizer": lambda held: torch.optim.Adafactor(held)}, "Adafactor may need whole parameters"),
    "temperature": ({"model": Temperature()}, "holds trained parameters beside other modules, and has to run again"),
    "shard": ({"shard": "zero"}, '"fully" .each keeps a part of it.'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_with_shards_is_refused_before_anything_is_there(tmp_path: Path, name: str) -> None:
    changes, said = REFUSED[name]
    shared = {"shard": changes.get("shard", "fully"), "lanes": 2}
    with pytest.raises(DiscreetError, match=said):
        sharded_runs.training(tmp_path / "run", shared, **{key: one for key, one in changes.items() if key != "shard"})
    assert list(tmp_path.iterdir()) == []


def test_a_weight_that_is_used_outside_of_its_module_is_refused_before_a_charge(tmp_path: Path) -> None:
    made = sharded_runs.training(tmp_path / "run", {"shard": "fully"}, model=Reaching())
    refused = pytest.raises(DiscreetError, match="a module uses weights of another one")
    with refused, made.session() as session:
        session.ready()
    assert made.team.lockstep is not None


class Copied(Queries):
    """Learned queries that are read as a copy."""

    def forward(self, like: torch.Tensor) -> torch.Tensor:
        return super().forward(like).clone()


def of_frozen(queries: type[Queries]) -> OfQueries:
    model = seeded(OfQueries)
    model.queries = queries(4, 16).requires_grad_(requires_grad=False)
    return model


def test_frozen_queries_that_the_next_layer_reads_as_they_are_are_refused_before_a_charge(tmp_path: Path) -> None:
    made = sharded_runs.training(tmp_path / "run", {"shard": "fully"}, model=of_frozen(Queries))
    refused = pytest.raises(DiscreetError, match=r"'read' \(Linear\) is given a part of weights as it is.*\.clone\(\)")
    with refused as raised, made.session() as session:
        session.ready()
    assert "\n" not in str(raised.value)


class Asking(nn.Module):
    """A block with frozen queries, which its own layer reads as they are."""

    def __init__(self, d: int = WIDTH) -> None:
        super().__init__()
        self.asked, self.read = (
            nn.Parameter(torch.linspace(-1, 1, 4 * d).view(4, d), requires_grad=False),
            nn.Linear(d, d),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read = self.read(self.asked.expand(len(x), -1, -1))
        return x + torch.softmax(x @ read.transpose(1, 2), -1) @ read


@pytest.mark.parametrize("place", [0, 1])
def test_so_are_those_of_a_block_that_reads_them_itself(tmp_path: Path, place: int) -> None:
    model = seeded(lambda: gpt(layers=2))
    model.blocks[place] = seeded(Asking)
    made = sharded_runs.training(tmp_path / "run", {"shard": "fully"}, model=model)
    said = r"module 'blocks.[01].read' \(Linear\) is given a part of weights as it is.*give it a copy \(\.clone\(\)\)"
    with pytest.raises(DiscreetError, match=said) as raised, made.session() as session:
        session.ready()
    assert "\n" not in str(raised.value)


def test_a_copy_of_them_is_trained_with_as_ever(tmp_path: Path) -> None:
    def case(folder: Path, shared: dict[str, Any]) -> Training:
        return sharded_runs.training(folder, shared, model=of_frozen(Copied))

    whole, _ = digest_of(case, tmp_path / "whole", {"shard": "replicate", "lanes": 2})
    assert digest_of(case, tmp_path / "shared", {"shard": "fully", "lanes": 2})[0] == whole


def test_the_best_model_is_not_kept_but_a_run_may_stop_early(tmp_path: Path) -> None:
    public = {"public": PublicData(validation=texts())}
    made = sharded_runs.training(tmp_path / "best", {"shard": "fully"}, **public)
    with pytest.raises(DiscreetError, match="the best model is a second one"):
        made.run(early=EarlyStopping("validation_loss"))
    made = sharded_runs.training(tmp_path / "early", {"shard": "fully"}, **public)
    trained = made.run(evaluate_every=1, early=EarlyStopping("validation_loss", 1, least=100.0, keep_best=False))
    assert [one.step for one in trained.evaluations] == [1, 2]


def test_a_model_of_which_python_reads_numbers_is_refused_before_a_charge(tmp_path: Path) -> None:
    """No program of it would be proved again without all weights, so no row would add anything."""
    made = sharded_runs.training(tmp_path / "run", {"shard": "fully"}, model=Reading())
    with pytest.raises(DiscreetError, match="Python reads numbers from tensors"), made.session() as session:
        session.ready()


def test_auto_is_bookkeeping_and_options_of_the_engine_hold(tmp_path: Path) -> None:
    engine = EngineOptions(fixed_rows=True, physical_batch=4)
    made = sharded_runs.training(tmp_path / "run", {"shard": "fully"}, engine=engine, physical_batch=None)
    assert made.engine.name == "bookkeeping"
    assert made.run().charged_steps == 4
