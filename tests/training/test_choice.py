"""Which engine "auto" comes to: by measured times and memory, the same again where times are close."""

from __future__ import annotations

import json
import operator
from pathlib import Path

import pytest
import torch
from problems import CLASSES, blobs, linear, tiny_training
from torch import Tensor, nn

from discreet import publish, verify
from discreet.clipping.engines import bookkeeping
from discreet.clipping.engines.footprint import footprint
from discreet.clipping.rules import base
from discreet.clipping.rules import linear as linear_rule
from discreet.core.errors import DiscreetError, InputError, UnsupportedModel
from discreet.jobs.train import Job
from discreet.recipes.assemble import engine_of
from discreet.training import EngineOptions
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
    monkeypatch.setattr(engine_check, "_CHUNK_MEMORY", 20 * (taken.ghost + taken.bookkeeping) // 2)
    timed(monkeypatch, bookkeeping=1.0, ghost=3.0, vmap=5.0)
    monkeypatch.setattr(engine_check, "gradient_rows", lambda model: 0)
    assert tiny_training(tmp_path / "a", model=deep()).engine.name == "bookkeeping"
    training = tiny_training(tmp_path / "b", model=deep(), physical_batch=20)
    assert training.engine.name == "ghost"
    assert training.preflight.chunk == 20
    assert "without memory for 20 rows: bookkeeping" in training.preflight.line


def test_a_footprint_counts_what_is_held() -> None:
    """Eleven numbers go in and seven come out of the first layer, of which tanh keeps its result; three at the end."""
    model = nn.Sequential(nn.Linear(11, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    inputs = torch.randn(5, 11, dtype=torch.float64)

    def loss(output: Tensor, _: Tensor) -> Tensor:
        return output.sum()

    found = footprint(model, loss, inputs, torch.zeros(5))
    assert found.gradients == 8 * (7 + 3)
    assert found.largest == 8 * 7
    assert found.values == 8 * (11 + 7)


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


class OwnNoise(nn.Module):
    """Random numbers from a generator that torch does not rewind; none while gradients are off."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.generator = linear(), torch.Generator().manual_seed(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * torch.rand(x.shape, generator=self.generator) if torch.is_grad_enabled() else x)


def test_random_numbers_that_are_not_drawn_again_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedModel, match="keeps state between calls"):
        tiny_training(tmp_path, model=OwnNoise(), engine="ghost")
    monkeypatch.setattr("discreet.training.preflight.engine_check.check_loss", lambda *_: None)
    monkeypatch.setattr("discreet.training.preflight.engine_comparison.refuse_mixing_backward", lambda *_: None)
    with pytest.raises(UnsupportedModel, match="two passes of the engine 'ghost' would see different ones"):
        tiny_training(tmp_path, model=OwnNoise(), engine="ghost")
    with pytest.raises(UnsupportedModel, match="draws from a generator of its own"):
        tiny_training(tmp_path, model=OwnNoise(), engine="bookkeeping")
    monkeypatch.setattr("discreet.training.preflight.engine_comparison.proved", lambda *_: [])
    assert "not compared" in tiny_training(tmp_path, model=OwnNoise(), engine="bookkeeping").preflight.line


def test_dropout_is_on_while_the_two_passes_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.clipping.replay import Generators

    model = nn.Sequential(nn.Dropout(0.5), linear())
    assert tiny_training(tmp_path / "a", model=model, engine="ghost").engine.name == "ghost"
    monkeypatch.setattr(Generators, "rewind", lambda self: None)
    with pytest.raises(UnsupportedModel, match="would see different ones"):
        tiny_training(tmp_path / "b", model=model, engine="ghost")


def test_the_slack_of_ghost_is_that_of_book_keeping(tmp_path: Path) -> None:
    """Also where a gradient cancels before a normalisation."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 1, 1), nn.GroupNorm(1, 1), nn.Flatten(), linear())
    bits = [
        tiny_training(tmp_path / name, model=model, engine=name).engine.float_bits for name in ("bookkeeping", "ghost")
    ]
    assert bits[0] is not None
    assert bits[1] == bits[0] <= 20


AUTOCAST = EngineOptions(autocast=torch.bfloat16)


def test_a_run_under_autocast_says_so_and_computes_in_it(tmp_path: Path) -> None:
    seen = set()
    model = nn.Sequential(linear())
    model.register_forward_hook(lambda module, args, output: seen.add(output.dtype))
    training = tiny_training(tmp_path, model=model, engine=AUTOCAST)
    assert "under autocast to torch.bfloat16" in training.preflight.line
    assert training.engine.name == "bookkeeping"
    seen.clear()
    training.run()
    assert seen == {torch.bfloat16}
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


def test_ghost_is_refused_under_autocast_and_in_half_precision(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="with autocast use engine='bookkeeping'"):
        tiny_training(tmp_path, engine=EngineOptions("ghost", autocast=torch.bfloat16))
    inputs, targets = blobs()
    with pytest.raises(UnsupportedModel, match="bfloat16, and the engine 'ghost' computes in single or double"):
        tiny_training(tmp_path, model=linear().bfloat16(), data=(inputs.bfloat16(), targets), engine="ghost")


@pytest.mark.parametrize("autocast", [True, False])
def test_a_norm_in_half_precision_costs_noise_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autocast: bool
) -> None:
    """What is measured is how much too long a single gradient is; a norm in single precision is within 2^-18."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, CLASSES))
    inputs, targets = blobs()
    changes = {"model": model, "engine": EngineOptions("bookkeeping", autocast=torch.bfloat16)}
    if not autocast:
        changes = {"model": model.bfloat16(), "data": (inputs.bfloat16(), targets), "engine": "bookkeeping"}
    right = tiny_training(tmp_path / "a", **changes).engine.float_bits
    assert right is not None
    assert right >= 17

    def squared_norms(rows: Tensor) -> Tensor:
        return rows.reshape(len(rows), -1).bfloat16().square().sum(1).double()

    for module in (base, linear_rule, bookkeeping.base):
        monkeypatch.setattr(module, "squared_norms", squared_norms)
    try:
        wrong = tiny_training(tmp_path / "b", **changes).engine.float_bits
    except UnsupportedModel as error:
        wrong = 5 if "too much noise to cover" in str(error) else None
    assert wrong is not None
    assert wrong <= 10


def test_fixed_rows_train_the_same_model_and_show_it_one_shape(tmp_path: Path) -> None:
    results, shapes = [], set()
    for fixed in (True, False):
        model = linear()
        options = EngineOptions("bookkeeping", fixed_rows=fixed)
        training = tiny_training(tmp_path / str(fixed), model=model, engine=options, physical_batch=5)
        if fixed:
            model.register_forward_pre_hook(lambda module, args: shapes.add(args[0].shape))
        training.run()
        results.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    assert shapes == {(5, 4)}
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"name": "magic"}, "unknown engine 'magic'"), ({"autocast": torch.float16}, "must be torch.bfloat16")],
)
def test_bad_options_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        EngineOptions(**options)  # type: ignore[arg-type]


def test_engines_are_timed_in_turns() -> None:
    calls: list[str] = []
    found = engine_timing.seconds([lambda: calls.append("a"), lambda: calls.append("b")], torch.device("cpu"))
    assert len(found) == 2
    assert "".join(calls) in ("abab", "ababab", "abababab", "ababababab")


def test_recipes_have_the_same_options(tmp_path: Path) -> None:
    settings = ["engine=bookkeeping", "autocast=bfloat16", "fixed_rows=true"]
    job = Job.new("digits", None, tmp_path / "out", settings, {})
    wanted = EngineOptions("bookkeeping", autocast=torch.bfloat16, fixed_rows=True, noise="exact")
    assert engine_of(job.recipe) == wanted
    assert engine_of(Job.new("digits", None, tmp_path / "out", [], {}).recipe) == EngineOptions("exact", noise="exact")
    with pytest.raises(InputError, match="autocast"):
        Job.new("digits", None, tmp_path / "out", ["autocast=float16"], {})


def test_a_certificate_of_ghost_is_accepted_and_says_what_is_assumed(tmp_path: Path) -> None:
    trained = tiny_training(tmp_path, engine="ghost", stream=None).run()
    publish(trained, tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["mechanism"]["engine"] == "ghost"
    assert any("second pass that measures again what it adds up" in text for text in facts["assumptions"])
    assert verify(tmp_path / "out").accepted


def test_what_is_chosen_does_not_depend_on_the_values_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(monkeypatch, bookkeeping=1.0, ghost=3.0, vmap=5.0)
    inputs, targets = blobs()
    one = tiny_training(tmp_path / "a", data=(inputs, targets)).preflight
    other = tiny_training(tmp_path / "b", data=(inputs * -7 + 1, targets.flip(0))).preflight
    names = ("chunk", "engine.name", "engine.float_bits")
    assert [operator.attrgetter(name)(one) for name in names] == [operator.attrgetter(name)(other) for name in names]
