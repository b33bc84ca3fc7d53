"""Keywords of version 0.1 that are fields of records now still do what they did, and say what to write."""

from pathlib import Path
from typing import Any

import pytest
from first_runs import first_plan
from problems import blobs, linear, tiny_plan
from searches import tuning
from torch import nn, optim

from discreet import InputError, Training
from discreet.randomness import TestStream
from discreet.training import RunOptions, answered_first


def of(**former: Any) -> Training:
    model = linear()
    return Training(tiny_plan(), model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1), blobs(), **former)


def test_each_does_what_it_did(tmp_path: Path) -> None:
    test = blobs(9, seed=1)
    ways = {"run_dir": tmp_path / "run", "stream": TestStream(7), "public_test": test, "public_validation": test}
    with pytest.warns(DeprecationWarning, match=" now") as told:
        former = of(**ways, noise="exact", physical_batch=5)
    assert [str(one.message) for one in told] == [
        "Training(run_dir=...) is Training(run=RunOptions(folder=...)) now",
        "Training(stream=...) is Training(run=RunOptions(stream=...)) now",
        "Training(public_test=...) is Training(public=PublicData(test=...)) now",
        "Training(public_validation=...) is Training(public=PublicData(validation=...)) now",
        "Training(noise=...) is Training(engine=EngineOptions(noise=...)) now",
        "Training(physical_batch=...) is Training(engine=EngineOptions(physical_batch=...)) now",
    ]
    assert {Path(one.filename) for one in told} == {Path(__file__)}
    assert (former.folder.path, former.noise.name, former.preflight.chunk) == (tmp_path / "run", "exact", 5)
    assert {"accuracy", "validation_accuracy"} <= set(former.run().evaluations[-1].metrics)


def test_their_errors_are_those_of_the_records(tmp_path: Path) -> None:
    with (
        pytest.warns(DeprecationWarning, match=" now"),
        pytest.raises(InputError, match=r"run=RunOptions\(FOLDER, resume=True\)"),
    ):
        of(resume=True)
    with pytest.raises(TypeError, match=r"Training\(\) got an unexpected keyword argument 'bach'"):
        of(bach=3)
    with pytest.raises(InputError, match="name the folder"), answered_first(first_plan(), linear()):
        pass  # pragma: no cover


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"device": "cuda"},
            r"^Training takes no device; move the model, model\.to\('cuda'\), and then make the optimizer",
        ),
        ({"batch_size": 3}, r"^Training takes no batch_size; the batch is the plan's: Plan\.poisson\(batch=\.\.\.\)$"),
        ({"target_epsilon": 3}, r"the plan meets it: Plan\.poisson\(\.\.\.\)\.calibrate\(epsilon=\.\.\.\)$"),
    ],
)
def test_keywords_of_other_libraries_are_told_what_to_do(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        of(**given)


def test_a_search_takes_no_resuming(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a search cannot be resumed"):
        tuning(tmp_path, run=RunOptions(tmp_path / "run", resume=True))


def test_the_former_name_of_the_preflight() -> None:
    training = of()
    with pytest.warns(DeprecationWarning, match=r"Training\.preflight now"):
        assert training.rehearsal is training.preflight
