"""Metrics on private rows that are bought: what they measure, what one row moves, and what is charged."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from problems import Recorded, blobs, linear, tiny_plan, tiny_training
from scipy import stats
from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.core.event_json import from_json
from discreet.core.events import Event, Gaussian, Poisson, flatten
from discreet.core.release import ClippedSum, Receipt
from discreet.data import Parts, PrivateData, as_private, group
from discreet.ledger import Ledger
from discreet.plan import (
    AdaptivePlan,
    Constant,
    Holdout,
    Knobs,
    Metric,
    NoSampling,
    Plan,
    PoissonSampling,
    ValidationDecay,
)
from discreet.randomness import NOISE_SAMPLERS, TestStream
from discreet.training import EarlyStopping, purchases
from discreet.training.evaluation import evaluate
from discreet.training.purchases import Purchases
from discreet.training.trained import Bought

LOSS = nn.CrossEntropyLoss()
ACCURACY = Metric(noise=1e-3)
CLIPPED = Metric(kind="loss", noise=1e-3, bound=0.75)


def unsampled(steps: int, metrics: list[Metric]) -> Plan:
    """Everyone in every step, whose price is one exact Gaussian's; blocks of three steps."""
    figures: dict[str, Any] = {"population": 24, "clip_norm": 1.0, "delta": 1e-5, "noise_multiplier": 3.0}
    return Plan.make(NoSampling(), steps=steps, metrics=metrics, **figures).model_copy(update={"block": 3})


def shop(data: PrivateData, plan: Plan | None = None, model: nn.Module | None = None) -> tuple[Purchases, list[Bought]]:
    """Purchases on `data`, and the list that they are noted in."""
    noted: list[Bought] = []
    made = Purchases(plan or tiny_plan(), model or linear(), LOSS, Parts(data), NOISE_SAMPLERS["exact"], noted.append)
    return made, noted


def buy(metric: Metric, data: PrivateData, position: int = 0, **more: Any) -> float:
    found, _ = shop(data, **more)
    return found.buy(metric, Receipt("run", 0, position, metric.event), TestStream(3))


def test_they_are_the_metrics_of_the_model() -> None:
    """With next to no noise, and as many rows as declared: what plain PyTorch says."""
    inputs, targets = blobs()
    with torch.no_grad():
        output = linear()(inputs)
    right = (output.argmax(1) == targets).double().mean()
    losses = F.cross_entropy(output, targets, reduction="none").clamp(max=0.75).double().mean()
    assert 0.1 < float(right) < 0.9
    assert float((F.cross_entropy(output, targets, reduction="none") > 0.75).double().mean()) > 0.2
    assert buy(ACCURACY, as_private((inputs, targets))) == pytest.approx(float(right), abs=1e-3)
    assert buy(CLIPPED, as_private((inputs, targets))) == pytest.approx(float(losses), abs=1e-3)


def test_the_divisor_is_declared_and_never_counted() -> None:
    """Eighteen rows where 24 are declared: the centred sum is divided by 24."""
    inputs, targets = blobs(18)
    right = int((linear()(inputs).argmax(1) == targets).sum())
    assert buy(ACCURACY, as_private((inputs, targets))) == pytest.approx(0.5 + (right - 9) / 24, abs=1e-3)


def test_a_users_rows_count_by_their_mean() -> None:
    inputs, targets = blobs(12)
    owners = [0] * 6 + [1] * 3 + [2, 2, 3]
    data = PrivateData(as_private((inputs, targets)).dataset, group(owners, 12))
    plan = tiny_plan(population=4, batch=2, unit="user", rows_per_unit=2)
    right = (linear()(inputs).argmax(1) == targets).double()
    means = [float(right[[i for i in range(12) if owners[i] == user]].mean()) for user in range(4)]
    assert buy(ACCURACY, data, plan=plan) == pytest.approx(sum(means) / 4, abs=2e-3)


def test_only_some_rows_are_looked_at() -> None:
    """At rate 1/2 the divisor is half of what is declared, and the draw is the receipt's own."""
    metric = Metric(noise=1e-3, rate=0.5)
    assert metric.event == Poisson(0.5, Gaussian(1e-3, "centred_bit"))  # type: ignore[arg-type]
    inputs, targets = blobs()
    right = (linear()(inputs).argmax(1) == targets).double() - 0.5
    found = set()
    for position in range(6):
        (rows,) = metric.sampler.batches(position, 24, TestStream(3))
        expected = 0.5 + float(right[rows].sum()) / 12
        assert buy(metric, as_private((inputs, targets)), position) == pytest.approx(expected, abs=1e-3)
        found.add(tuple(rows))
    assert len(found) == 6


class Odd(nn.Module):
    """Outputs that are given by the input: whatever a row wants to say."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w


ROWS = torch.tensor(
    [[9.0, 0.0], [0.0, 9.0], [0.1, 0.2], [math.nan, 0.0], [math.inf, 0.0], [-math.inf, 0.0], [0.0, 0.0], [1e30, 0.0]]
)
TARGETS = torch.tensor([0, 0, 1, 0, 1, 0, 1, 1])


@pytest.mark.parametrize("metric", [Metric(noise=3.3), Metric(kind="loss", noise=0.7, bound=1.3)])
def test_no_row_moves_the_sum_by_more_than_is_paid_for(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed: half the range. Replaced: all of it. In rational arithmetic, NaN and infinity included."""
    sums: list[ClippedSum] = []
    real = purchases.gaussian_release

    def keep(total: ClippedSum, *rest: Any) -> Any:
        sums.append(total)
        return real(total, *rest)

    monkeypatch.setattr(purchases, "gaussian_release", keep)

    def total(rows: list[int]) -> Fraction:
        buy(metric, as_private((ROWS[rows], TARGETS[rows])), model=Odd())
        value = Fraction(float(sums[-1].tensors["metric"][0]))
        assert (value / Fraction(sums[-1].grid)).denominator == 1
        return value

    whole = total(list(range(8)))
    paid = Fraction(metric.contribution)
    assert Fraction(sums[-1].sensitivity) == paid == Fraction(metric.range) / 2
    alone = [whole - total([i for i in range(8) if i != row]) for row in range(8)]
    assert max(map(abs, alone)) <= paid
    assert max(alone) - min(alone) <= 2 * paid
    assert max(alone) > Fraction(99, 100) * paid
    assert min(alone) < -Fraction(99, 100) * paid


def test_the_noise_has_the_scale_that_is_stated() -> None:
    """Chi-square test on 400 purchases; false alarm 1e-9, were the seed not fixed."""
    metric, data = Metric(noise=5.0), as_private(blobs(6))
    found, noted = shop(data, tiny_plan(population=6, batch=3))
    stream = TestStream(1)
    exact = buy(ACCURACY, data, plan=tiny_plan(population=6, batch=3))
    for position in range(400):
        found.buy(metric, Receipt("run", 0, position, metric.event), stream)
    stated = noted[0].deviation
    assert stated == pytest.approx(5.0 * 0.5 / 6)
    statistic = sum(((one.value - exact) / stated) ** 2 for one in noted)
    low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], 400)
    assert low < statistic < high


def test_the_stated_deviation_covers_how_many_happen_to_be_held_out() -> None:
    """Noise and the size of the holdout, drawn 4,000 times; relative error of a deviation about 1 %, allowed 6 %."""
    generator = np.random.Generator(np.random.PCG64(0))
    metric, share, whole, accuracy = Metric(noise=4.0, rows="holdout"), 0.2, 500, 1.0
    units = share * whole
    held = generator.binomial(whole, share, 4000)
    noisy = [(accuracy - 0.5) * n + 2.0 * generator.normal() for n in held]
    values = [metric.value(total, units) for total in noisy]
    assert np.std(values) == pytest.approx(metric.deviation(units, share), rel=0.06)
    assert np.mean(values) == pytest.approx(accuracy, abs=0.01)
    size = Metric(kind="size", noise=4.0, rows="holdout")
    divided = [metric.value(total, n + 4.0 * generator.normal()) for total, n in zip(noisy, held, strict=True)]
    assert np.std(divided) == pytest.approx(metric.deviation(units, share, size), rel=0.06)
    assert np.mean(divided) == pytest.approx(accuracy, abs=0.01)


def test_a_noisy_size_divides_where_it_is_bought(tmp_path: Path) -> None:
    """Eighteen rows where 24 are declared; the size is bought once, before the first accuracy."""
    metrics = [Metric(noise=1e-3, every=2), Metric(kind="size", noise=1e-3)]
    plan = unsampled(steps=4, metrics=metrics)
    trained = tiny_training(tmp_path, plan=plan, data=blobs(18)).run()
    assert [(one.step, one.metric) for one in trained.bought] == [
        (3, "training_size"),
        (4, "training_accuracy"),
        (7, "training_accuracy"),
    ]
    size, _, last = trained.bought
    assert size.value == pytest.approx(18, abs=0.01)
    assert size.deviation == 1e-3
    right = int((trained.model(blobs(18)[0]).argmax(1) == blobs(18)[1]).sum())
    assert last.value == pytest.approx(right / 18, abs=1e-3)
    assert last.deviation == pytest.approx(0.5 * math.sqrt(2) * 1e-3 / 24)


def test_an_adaptive_run_buys_the_size_once(tmp_path: Path) -> None:
    metrics = [Metric(noise=9.0), Metric(kind="size", noise=9.0)]
    trained = tiny_training(tmp_path, plan=adaptive(metrics=metrics)).run()
    names = [one.metric for one in trained.bought]
    assert names == ["training_size", *["training_accuracy"] * (len(names) - 1)]
    assert len(names) > 2


# In a run -------------------------------------------------------------------------------------------------------------


def charged(folder: Path) -> list[Event]:
    ledger = Ledger(folder / "run" / "ledger.sqlite")
    entries = [entry for entry in ledger.entries() if entry.kind == "reservation"]
    ledger.verify()
    ledger.close()
    return [part for entry in entries for part, n in flatten(from_json(entry.content)) for _ in range(n)]


BOTH = [Metric(noise=8.0, every=2), Metric(kind="loss", noise=4.0, bound=2.0)]


def test_a_fixed_plan_buys_at_the_steps_that_it_names(tmp_path: Path) -> None:
    plan = tiny_plan(metrics=BOTH)
    step, accuracy, loss = Poisson(0.5, Gaussian(1.5)), BOTH[0].event, BOTH[1].event
    training = tiny_training(tmp_path, plan=plan)
    trained = training.run()
    assert charged(tmp_path) == [step, step, accuracy] * 3 + [step, loss]
    assert trained.charged_steps == plan.charges == 11
    assert [(one.step, one.metric) for one in trained.bought] == [
        (3, "training_accuracy"),
        (6, "training_accuracy"),
        (9, "training_accuracy"),
        (11, "training_loss"),
    ]
    assert all(one.deviation == pytest.approx(8.0 * 0.5 / 24) for one in trained.bought[:3])


def test_what_is_bought_is_of_the_model_at_that_step(tmp_path: Path) -> None:
    """With next to no noise, each value is that of the model when it was bought: after the sixth step, say."""
    plan = unsampled(metrics=[Metric(noise=1e-3, every=3)], steps=6)
    training = tiny_training(tmp_path, plan=plan)
    found: list[float] = []
    with training.session() as session:
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
            found.append(evaluate(training.model, LOSS, *blobs())["accuracy"])
        bought = training.result(session).bought
    assert [one.value for one in bought] == pytest.approx([found[2], found[5]], abs=1e-3)


def test_a_loop_of_your_own_and_a_resumed_run_keep_what_was_bought(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    plan = tiny_plan(metrics=[Metric(noise=8.0, every=1)], steps=12)  # in blocks of three steps
    training = tiny_training(tmp_path, plan=plan)

    def stopping() -> None:
        with training.session() as session:
            for _ in range(6):
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(LOSS, chunk)
                if session.between_blocks:
                    training.save(session)
                if session.position == 10:  # in the second block
                    raise Stop

    with pytest.raises(Stop):
        stopping()
    again = tiny_training(tmp_path, plan=plan, resume=True, stream=TestStream(8), model=linear())
    trained = again.run()
    assert trained.charged_steps == 24
    assert [one.step for one in trained.bought] == [2, 4, 6, *range(14, 25, 2)]  # the second block was lost


def test_the_best_by_a_bought_metric_is_kept(tmp_path: Path) -> None:
    states: list[dict[str, Tensor]] = []

    class Noting(nn.Linear):
        def eval(self) -> Noting:
            states.append({name: tensor.clone() for name, tensor in self.state_dict().items()})
            return super().eval()

    torch.manual_seed(0)
    model = Noting(4, 3)
    plan = tiny_plan(metrics=[Metric(noise=40.0, every=1)], steps=8)
    training = tiny_training(tmp_path, plan=plan, model=model, stream=TestStream(11))
    states.clear()
    trained = training.run(early=EarlyStopping(metric="training_accuracy", patience=None))
    values = [one.value for one in trained.bought]
    best = int(np.argmax(values))
    assert len(values) == 8
    assert best < 7
    kept = trained.model.state_dict()
    assert all(torch.equal(states[best][name], kept[name]) for name in kept)
    assert not all(torch.equal(states[7][name], kept[name]) for name in kept)


def test_patience_with_a_bought_metric_ends_the_run(tmp_path: Path) -> None:
    plan = unsampled(metrics=[Metric(noise=1e-3, every=1)], steps=9)
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    trained = tiny_training(tmp_path, plan=plan, model=model, optimizer=optimizer).run(
        early=EarlyStopping(metric="training_accuracy", patience=2, least=0.5)
    )
    assert len(trained.bought) == 3
    assert trained.charged_steps == 6  # one block; the rest of the plan was not charged


def test_a_rule_on_a_metric_that_is_not_bought_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not buy"):
        tiny_training(tmp_path).run(early=EarlyStopping(metric="holdout_accuracy"))


def test_an_adaptive_run_buys_after_each_phase_and_its_policy_may_look(tmp_path: Path) -> None:
    seen: list[dict[str, float]] = []

    def policy(phase: int, history: Any) -> Knobs | None:
        seen.extend(dict(each.metrics) for each in history.phases[-1:])
        return None if phase == 3 else history.knobs

    metrics = [Metric(noise=9.0), Metric(kind="loss", noise=9.0, bound=3.0)]
    plan = adaptive(policy, metrics=metrics)
    trained = tiny_training(tmp_path, plan=plan).run()
    assert [sorted(each) for each in seen] == [["training_accuracy", "training_loss"]] * 3
    assert [one.value for one in trained.bought[::2]] == [each["training_accuracy"] for each in seen]
    events = charged(tmp_path)
    assert [events.count(metric.event) for metric in metrics] == [3, 3]
    assert trained.charged_steps == len(events) == 3 * 6


def adaptive(policy: Any = None, **changes: Any) -> AdaptivePlan:
    given: dict[str, Any] = {
        "epsilon": 20.0,
        "delta": 1e-5,
        "population": 24,
        "clip_norm": 1.0,
        "policy": policy or Constant(),
        "noise_multiplier": 3.0,
        "most_steps": 24,
        "every": 2.0,
    }
    return AdaptivePlan.make(PoissonSampling(rate=0.5), **(given | changes))


def test_a_decay_by_held_out_accuracy(tmp_path: Path) -> None:
    policy = ValidationDecay(metric="holdout_accuracy", average=1, period=1, factor=0.5, threshold=5.0)
    plan = adaptive(policy, metrics=[Metric(noise=9.0, rows="holdout")], holdout=0.4, epsilon=60.0)
    training = tiny_training(tmp_path, plan=plan, ids=range(24), data=blobs())
    training.run()
    noises = [phase.knobs.noise_multiplier for phase in training._progress.phases]
    assert noises[:3] == [3.0, 1.5, 0.75]
    with pytest.raises(InputError, match="not bought"):
        adaptive(policy)


# Held out -------------------------------------------------------------------------------------------------------------


def test_held_out_rows_are_never_trained_on_and_only_they_are_measured(tmp_path: Path) -> None:
    data = Recorded(60)
    plan = tiny_plan(population=60, holdout=0.3, metrics=[Metric(noise=1e-3, rows="holdout")])
    names = [f"patient {i}" for i in range(60)]
    out = {i for i in range(60) if Holdout(share=0.3).holds_out(names[i])}
    assert 8 < len(out) < 30
    training = tiny_training(tmp_path, plan=plan, data=data, ids=names)
    data.on_read = lambda _index: None
    with training.session() as session:
        for number in range(7):
            if number == 6:
                assert not out & set(data.reads)
                assert len(set(data.reads)) > 30
                data.reads.clear()
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
        assert out <= set(data.reads)  # the last step, and then what is held out
        (bought,) = training.result(session).bought
    right = (training.model(data.inputs).argmax(1) == data.targets).double()
    held = right[sorted(out)]
    assert bought.value == pytest.approx(0.5 + float((held - 0.5).sum()) / (0.3 * 60), abs=1e-3)


def test_the_side_of_a_row_depends_on_its_own_name_only() -> None:
    holdout = Holdout(share=0.1)
    names: list[int | str] = [*range(4000), *(f"row {i}" for i in range(4000))]
    sides = {name: holdout.holds_out(name) for name in names}
    # 8,000 rows at 1/10: 800 with standard deviation 27; seven of them are allowed
    assert abs(sum(sides.values()) - 800) < 190
    assert [sides[i] for i in range(100)] != [holdout.holds_out(str(i)) for i in range(100)]
    other = Holdout(share=0.1, salt="another")
    assert {name for name in names if other.holds_out(name)} != {name for name in names if sides[name]}
    wider = Holdout(share=0.3)
    assert all(wider.holds_out(name) for name in names if sides[name])


@pytest.mark.parametrize("gone", [0, 11, 23])
def test_removing_a_row_moves_no_other(tmp_path: Path, gone: int) -> None:
    plan = tiny_plan(holdout=0.3, metrics=[Metric(noise=5.0, rows="holdout")])
    sides = []
    for rows in (list(range(24)), [i for i in range(24) if i != gone]):
        inputs, targets = blobs()
        training = tiny_training(tmp_path / str(len(rows)), plan=plan, data=(inputs[rows], targets[rows]), ids=rows)
        parts = training._parts
        assert parts.held_out is not None
        held, trained = ({tuple(x.tolist()) for x, _ in part.dataset} for part in (parts.held_out, parts.training))
        sides.append((held, trained))
    lost = tuple(blobs()[0][gone].tolist())
    assert sides[1] == tuple(side - {lost} for side in sides[0])


def test_a_user_is_on_one_side_with_all_rows(tmp_path: Path) -> None:
    owners = [f"user {i // 3}" for i in range(24)]
    plan = tiny_plan(
        population=8, batch=4, unit="user", rows_per_unit=3, holdout=0.4, metrics=[Metric(noise=5.0, rows="holdout")]
    )
    training = tiny_training(tmp_path, plan=plan, units=owners)
    parts = training._parts
    assert parts.held_out is not None
    held = sum(plan.holdout.holds_out(name) for name in set(owners))  # type: ignore[union-attr]
    assert (len(parts.held_out), len(parts.training)) == (held, 8 - held)
    assert (parts.held_out.rows, parts.training.rows) == (3 * held, 24 - 3 * held)
    trained = training.run()
    assert len(trained.bought) == 1


def test_rows_without_names_are_refused_where_their_number_is_private(tmp_path: Path) -> None:
    metrics = [Metric(noise=5.0, rows="holdout")]
    with pytest.raises(InputError, match="ids"):
        tiny_training(tmp_path, plan=tiny_plan(holdout=0.3, metrics=metrics))
    training = tiny_training(tmp_path, plan=tiny_plan(holdout=0.3, metrics=metrics, adjacency="zero_out"))
    assert training._parts.held_out is not None


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Metric(kind="loss", noise=1.0), "bound"),
        (lambda: Metric(noise=1.0, bound=1.0), "bound"),
        (lambda: Metric(noise=0.0), "greater than 0"),
        (lambda: Metric(noise=math.inf), "finite"),
        (lambda: tiny_plan(metrics=[Metric(noise=1.0), Metric(noise=2.0)]), "twice"),
        (lambda: tiny_plan(metrics=[Metric(noise=1.0, rows="holdout")]), "none are held out"),
        (lambda: tiny_plan(holdout=0.3), "for nothing"),
        (lambda: tiny_plan(metrics=[Metric(kind="size", noise=3.0)]), "for nothing"),
        (lambda: Metric(kind="size", noise=3.0, every=2), "bought once"),
        (lambda: tiny_plan(holdout=1.0), "less than 1"),
        (lambda: adaptive(metrics=[Metric(noise=1.0, every=3)]), "after each phase"),
        (lambda: tiny_plan(metrics=[Metric(noise=1.0, every=1)]).calibrate(1.0), "the metrics alone cost"),
        (
            lambda: tiny_plan(metrics=[Metric(noise=1.0, every=1, rows="holdout")], holdout=0.5).calibrate(1.0),
            "the metrics alone cost",
        ),
    ],
)
def test_what_cannot_be_bought(make: Callable[[], Any], says: str) -> None:
    with pytest.raises((InputError, ValueError), match=says):
        make()


def test_metrics_that_the_data_or_the_criterion_does_not_have(tmp_path: Path) -> None:
    inputs, _ = blobs()
    regression = {"data": (inputs, inputs[:, :1]), "model": nn.Linear(4, 1), "criterion": nn.MSELoss()}
    with pytest.raises(InputError, match="class index"):
        tiny_training(tmp_path, plan=tiny_plan(metrics=[Metric(noise=5.0)]), **regression)
    many = tiny_plan(metrics=[Metric(kind="loss", noise=5.0, bound=1.0)])
    trained = tiny_training(tmp_path, plan=many, **regression).run()
    assert len(trained.bought) == 1
    with pytest.raises(InputError, match="too large for so little noise"):
        tiny_training(tmp_path / "b", plan=tiny_plan(metrics=[Metric(noise=1e-7)]))
