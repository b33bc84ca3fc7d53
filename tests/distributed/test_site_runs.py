"""Data at sites that one process alone reads: the same releases, bit for bit, whatever process holds which site."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forging import Change, Facts, forged, put
from forked import forked
from problems import blobs, tiny_training
from shared_runs import WHOSE
from site_runs import CASES, NAMES, ROWS, digest_of, training

from discreet import Plan, publish, verify
from discreet.core import assumptions
from discreet.plan import FixedSizeSampling, Metric, NoSampling
from discreet.training import Training
from discreet.verification.standalone import verify as reviewer

SOME = ("poisson, example", "poisson, user", "cyclic, example", "metrics", "random metrics")

Alone = Callable[[str], str]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """What one process releases that holds all sites."""
    return cache(lambda name: digest_of(CASES[name], tmp_path_factory.mktemp("alone") / "run", {})[0])


def check(alone: Alone, processes: int, names: tuple[str, ...], folder: Path) -> None:
    (line,) = forked(processes, "site_runs.py", str(folder), *names).splitlines()
    assert json.loads(line) == {name: alone(name) for name in names}


def test_two_processes_release_what_one_does_that_holds_all_sites(tmp_path: Path, alone: Alone) -> None:
    check(alone, 2, SOME, tmp_path)


@pytest.mark.parametrize("processes", [2, 3])
def test_so_do_all_processes_in_every_way_to_train(tmp_path: Path, alone: Alone, processes: int) -> None:
    """All ways on two processes, with `SOME` in the test above; on three, half of samplings and engines, all others."""
    names = tuple(name for name in CASES if name not in SOME)
    if processes > 2:
        halved = [name for name in CASES if name.startswith("engine ") or name.endswith((", example", ", user"))]
        names = tuple(name for name in CASES if name not in halved or halved.index(name) % 4 in (0, 3))
    check(alone, processes, names, tmp_path)


@pytest.mark.parametrize("holdout", [None, 0.3])
@pytest.mark.parametrize("unit", ["example", "user"])
def test_everyone_of_all_sites_is_everyone(tmp_path: Path, unit: str, holdout: float | None) -> None:
    """Without sampling, exact sums over sites are those of one data set: the same noise, and the same releases as one
    process makes that has all rows and knows no sites."""
    plan = Plan.make(
        NoSampling(),
        population=24 if unit == "example" else 6,
        steps=4,
        clip_norm=0.7,
        delta=1e-5,
        noise_multiplier=1.5,
        adjacency="add_remove",
        unit=unit,
        rows_per_unit=1 if unit == "example" else 4,
        metrics=(Metric(kind="accuracy", noise=20.0, every=2, rows="training" if holdout is None else "holdout"),),
        holdout=holdout,
    )
    names = np.arange(24) if unit == "example" else NAMES[WHOSE]

    def one(**changes: Any) -> Callable[[Path, dict[str, Any]], Training]:
        named = {number: names[rows] for number, rows in ROWS.items()} if "data" not in changes else names
        whose = {"units": named} if unit == "user" else {"ids": named} if holdout else {}
        return lambda folder, shared: training(folder, plan=plan, engine="exact", **whose, **changes)

    parts, _ = digest_of(one(), tmp_path / "sites", {})
    whole, _ = digest_of(one(data=blobs(), shard=None), tmp_path / "whole", {})
    assert parts == whole


def stages(folder: Path, *stages: tuple[int, int, str]) -> str:
    """What is printed at the end of a run in stages: processes, steps, and what each process keeps of the weights."""
    return "".join(forked(one, "site_runs.py", str(folder), "stage", str(to), shard) for one, to, shard in stages)


def test_a_run_goes_on_with_sites_in_other_hands(tmp_path: Path) -> None:
    """The weights are those of one process that held all sites and never stopped, whole or shared out."""
    whole = stages(tmp_path / "whole", (1, 6, "replicate"))
    assert whole
    assert stages(tmp_path / "a", (2, 2, "replicate"), (3, 4, "replicate"), (1, 6, "replicate")) == whole
    assert stages(tmp_path / "b", (1, 2, "fully"), (2, 4, "fully"), (3, 6, "fully")) == whole


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that two processes published, one with two sites."""
    folder = tmp_path_factory.mktemp("published")
    forked(2, "site_runs.py", str(folder), "publish")
    return folder / "model"


def test_a_run_at_sites_is_published_and_both_verifiers_accept_it(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = json.loads((model / "certificate.json").read_text())
    assert facts["mechanism"]["sites"] == facts["mechanism"]["lanes"] == 3
    assert "All rows of a unit lie at one site" in facts["assumptions"][-1]
    assert verify(model).accepted
    assert reviewer.main([str(model)]) == 0
    assert "ACCEPTED" in capsys.readouterr().out


def say_sites(count: int) -> tuple[Change, ...]:
    """Everything that says how many sites there were."""

    def say(facts: Facts) -> None:
        for one in facts["ledger"]["entries"]:
            if one["kind"] == "attempt":
                one["body"]["sites"] = count
        lanes = assumptions.lanes(facts["mechanism"]["lanes"], count)
        facts["assumptions"] = [one for one in facts["assumptions"] if "sites" not in one] + [lanes[-1]]

    return put("mechanism", "sites", value=count), say


def check_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For its sites, and nothing else."""
    assert [one.name for one in verify(folder).checks if not one.passed] == ["mechanism"]
    assert reviewer.main([str(folder)]) == 1
    assert "sites whose units are not drawn independently" in capsys.readouterr().out


def test_fewer_sites_than_lanes_are_rejected(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(model, tmp_path / "model")
    forged(tmp_path / "model", *say_sites(3))
    assert verify(tmp_path / "model").accepted  # so it is the number that is refused
    forged(tmp_path / "model", *say_sites(2))
    check_rejected(tmp_path / "model", capsys)


def test_sites_whose_units_depend_on_each_other_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As no run could have drawn them: batches of a fixed size are drawn from all units together."""
    plan = Plan.make(
        FixedSizeSampling(batch=8),
        population=24,
        steps=3,
        clip_norm=0.7,
        delta=1e-5,
        noise_multiplier=2.0,
        adjacency="replace_one",
    )
    trained = tiny_training(tmp_path, plan=plan, shard="replicate", lanes=3, stream=None, engine="bookkeeping").run()
    publish(trained, tmp_path / "model")
    assert verify(tmp_path / "model").accepted
    forged(tmp_path / "model", *say_sites(3))
    check_rejected(tmp_path / "model", capsys)
