"""Which engine "auto" comes to: by measured times and memory, the same again where times are close."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest
import torch
from problems import CLASSES, blobs, tiny_training
from torch import nn

from discreet import publish
from discreet.clipping.engines import footprint as footprints
from discreet.clipping.engines.footprint import footprint
from discreet.core.errors import DiscreetError
from discreet.training.preflight import engine_check, engine_timing
from discreet.training.preflight.engine_timing import CLEARLY, Candidate, choose, described


def candidates(*seconds: float, chunks: tuple[int, ...] = (100, 100, 100)) -> list[Candidate]:
    return [
        Candidate(name, time, chunk)
        for name, time, chunk in zip(("bookkeeping", "ghost", "vmap"), seconds, chunks, strict=False)
    ]


@pytest.mark.parametrize(
    ("seconds", "name"),
    [
        ((1.0, 2.0, 3.0), "bookkeeping"),
        ((1.0, 1.0 / CLEARLY, 1.0 / CLEARLY), "bookkeeping"),
        ((1.0, 0.99 / CLEARLY, 0.7 / CLEARLY), "ghost"),
        ((1.0, 0.9, 0.5), "vmap"),
        ((1.0, 0.6, 0.3), "vmap"),
        ((1.0,), "bookkeeping"),
    ],
)
def test_what_is_clearly_faster_is_taken_and_else_what_comes_first(seconds: tuple[float, ...], name: str) -> None:
    assert choose(candidates(*seconds)).name == name


@pytest.mark.parametrize(
    ("chunks", "chunk", "name"),
    [
        ((100, 100, 100), 100, "bookkeeping"),
        ((99, 100, 100), 100, "ghost"),
        ((99, 99, 100), 100, "vmap"),
        ((50, 99, 10), 100, "ghost"),
        ((1, 2, 3), None, "bookkeeping"),
    ],
)
def test_what_has_no_memory_for_the_chunk_is_passed_over(chunks: tuple[int, ...], chunk: int | None, name: str) -> None:
    assert choose(candidates(1.0, 2.0, 3.0, chunks=chunks), chunk).name == name


def test_what_it_was_chosen_by_is_said() -> None:
    words = described(candidates(1e-6, 2e-6, 3e-3, chunks=(10, 100, 10)), 64)
    assert words == (
        "microseconds per row: bookkeeping 1, ghost 2, vmap 3e+03, without memory for 64 rows: bookkeeping, vmap"
    )


def timed(monkeypatch: pytest.MonkeyPatch, **times: float) -> None:
    """Let the engines take so many seconds per row."""

    def seconds(stage: engine_check.Comparison, names: list[str], *_: object) -> dict[str, Candidate]:
        return {name: Candidate(name, times[name], engine_check._room(stage, name)) for name in names}

    monkeypatch.setattr(engine_check, "_timed", seconds)


@pytest.mark.parametrize(
    ("times", "name"),
    [
        ({"bookkeeping": 1.0, "ghost": 1.4, "vmap": 1.4}, "bookkeeping"),
        ({"bookkeeping": 1.0, "ghost": 0.1, "vmap": 0.2}, "vmap"),
        ({"bookkeeping": 1.0, "ghost": 2.0, "vmap": 0.2}, "vmap"),
    ],
)
def test_auto_is_the_fastest_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: dict[str, float], name: str
) -> None:
    timed(monkeypatch, **times)
    training = tiny_training(tmp_path)
    assert training.engine.name == name
    assert f"engine {name}: within" in training.preflight.line
    assert "microseconds per row: bookkeeping 1e+06" in training.preflight.line
    training.run()


def test_an_engine_that_was_held_up_is_timed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([9.0, 1.0, 9.0, 1.0])

    def seconds(stage: engine_check.Comparison, names: list[str], *_: object) -> dict[str, Candidate]:
        return {name: Candidate(name, next(times) if name == "bookkeeping" else 2.0, 99) for name in names}

    monkeypatch.setattr(engine_check, "_timed", seconds)
    assert tiny_training(tmp_path).engine.name == "bookkeeping"


def test_what_is_slow_on_a_few_rows_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, bookkeeping=1.0, ghost=CLEARLY, vmap=1.1)
    checked = []
    real = engine_check._checked
    monkeypatch.setattr(engine_check, "_checked", lambda stage, name: checked.append(name) or real(stage, name))
    tiny_training(tmp_path / "a")
    assert checked == ["bookkeeping", "vmap"]
    timed(monkeypatch, bookkeeping=1e-6)
    tiny_training(tmp_path / "b")
    assert checked == ["bookkeeping", "vmap", "bookkeeping"]


def deep() -> nn.Module:
    layers = [part for _ in range(8) for part in (nn.Linear(30, 30), nn.Tanh())]
    return nn.Sequential(nn.Linear(4, 30), *layers, nn.Linear(30, CLASSES))


def test_an_engine_with_less_memory_is_taken_for_chunks_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = footprint(deep(), nn.CrossEntropyLoss(), *(part[:6] for part in blobs()))
    assert taken.ghost < taken.bookkeeping
    monkeypatch.setattr(footprints, "_MEMORY", 20 * (taken.ghost + taken.bookkeeping) // 2)
    timed(monkeypatch, bookkeeping=1.0, ghost=3.0, vmap=5.0)
    monkeypatch.setattr(engine_check, "gradient_rows", lambda model: 0)
    assert tiny_training(tmp_path / "a", model=deep()).engine.name == "bookkeeping"
    training = tiny_training(tmp_path / "b", model=deep(), physical_batch=20)
    assert training.engine.name == "ghost"
    assert training.preflight.chunk == 20
    assert "without memory for 20 rows: bookkeeping" in training.preflight.line


@pytest.mark.parametrize("name", ["ghost", "vmap", "reference"])
def test_a_resumed_run_keeps_the_engine_it_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    training = tiny_training(tmp_path, engine=name)
    with training.session() as session, session.step() as step:
        for chunk in step.chunks:
            step.add(nn.CrossEntropyLoss(), chunk)
    timed(monkeypatch, bookkeeping=1.0, ghost=3.0, vmap=5.0)
    again = tiny_training(tmp_path, resume=True)
    assert again.engine.name == name
    assert again.run().charged_steps == 7


def test_a_folder_without_a_run_is_refused_as_before(tmp_path: Path) -> None:
    with pytest.raises(DiscreetError, match="holds no run that can be resumed"):
        tiny_training(tmp_path, resume=True).run()


def test_a_published_run_is_said_to_be_published(tmp_path: Path) -> None:
    publish(tiny_training(tmp_path, stream=None).run(), tmp_path / "out")
    with pytest.raises(DiscreetError, match=r"no run that can be resumed .it is published, or its key is lost"):
        tiny_training(tmp_path, resume=True).run()


def test_engines_are_timed_in_turns() -> None:
    calls: list[str] = []
    found = engine_timing.seconds([lambda: calls.append("a"), lambda: calls.append("b")], torch.device("cpu"))
    assert len(found) == 2
    assert "".join(calls) in ("abab", "ababab", "abababab", "ababababab")


def test_what_is_chosen_does_not_depend_on_the_values_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(monkeypatch, bookkeeping=1.0, ghost=3.0, vmap=5.0)
    inputs, targets = blobs()
    one = tiny_training(tmp_path / "a", data=(inputs, targets)).preflight
    other = tiny_training(tmp_path / "b", data=(inputs * -7 + 1, targets.flip(0))).preflight
    names = ("chunk", "engine.name", "engine.float_bits")
    assert [operator.attrgetter(name)(one) for name in names] == [operator.attrgetter(name)(other) for name in names]
