"""What averaged predictions gain on the digits of scikit-learn at no privacy: rows for docs/methods/dropout.md.

python benchmarks/posterior.py --runs 10

Every run has epsilon 1 at delta 1e-4. From one run come three answers: the last iterate, the mean of the weights of the
second half, and the mean of the predictions of iterates kept from the second half. The settings are chosen for each
method and answer, on a quarter of the training images, held out, by the loss; the test part is not looked at, and the
choice is not covered by epsilon, as the data is public.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from discreet import Plan, Training
from discreet.accounting import schedules
from discreet.data import DATASETS
from discreet.methods import SGLD, Averaging, DPDropout, Posterior, calibration_error, log_loss

Rows = tuple[Tensor, Tensor]
POPULATION, BATCH, STEPS, EPSILON, DELTA = 1437, 360, 80, 1.0, 1e-4
READOUTS = ("last iterate", "mean of weights", "mean of predictions")


@dataclass(frozen=True)
class Method:
    """An optimizer with its settings to choose from, and the noise over time, scaled to the budget."""

    optimizer: Callable[..., torch.optim.Optimizer]
    settings: Mapping[str, tuple[float, ...]]
    noise: str = "uniform:initial=1"

    def plan(self) -> Plan:
        """The plan at the budget of all."""
        return Plan.poisson(
            population=POPULATION,
            batch=BATCH,
            steps=STEPS,
            clip_norm=1.0,
            delta=DELTA,
            noise_multiplier=schedules.parse(self.noise),
        ).calibrate(EPSILON)


METHODS = {
    "SGD": Method(lambda model, rate: torch.optim.SGD(model.parameters(), lr=rate), {"rate": (0.3, 1.0, 3.0, 10.0)}),
    "DP dropout": Method(
        lambda model, rate, decay: DPDropout(model.parameters(), lr=rate, decay=decay, weight_decay=1 / POPULATION),
        {"rate": (3.0, 10.0, 30.0), "decay": (0.25, 0.5)},
    ),
    "SGLD": Method(
        lambda model, temperature, precision: SGLD(
            model.parameters(), POPULATION, precision=precision, temperature=temperature
        ),
        {"temperature": (0.1, 0.3, 1.0, 3.0), "precision": (1.0, 10.0)},
        noise="power:initial=1,rate=0.25,per=step,every=5",
    ),
}

LARGE = {
    "SGD": {"rate": 10.0},
    "DP dropout": {"rate": 100.0, "decay": 0.5},
    "SGLD": {"temperature": 3.0, "precision": 1.0},
}
"""Ten times the best step sizes of the last iterate, or more."""


def linear() -> nn.Module:
    """One layer that starts at zero."""
    layer = nn.Linear(64, 10, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


def answers(method: Method, plan: Plan, setting: Mapping[str, float], train: Rows, test: Rows) -> dict[str, Tensor]:
    """Class probabilities of one run on the test rows, by read-out."""
    model = linear()
    optimizer = method.optimizer(model, **setting)
    posterior = Posterior(model, most=40, start=STEPS // 2).follow(optimizer)
    with tempfile.TemporaryDirectory() as folder:
        trained = Training(
            plan,
            model,
            nn.CrossEntropyLoss(),
            optimizer,
            train,
            run=Path(folder) / "run",
            averaging=Averaging(start=STEPS // 2),
        ).run()
    with torch.no_grad():
        last, mean = (torch.softmax(one(test[0]), -1) for one in (model, trained.model))
    return dict(zip(READOUTS, (last, mean, posterior.predict(test[0])), strict=True))


def main() -> None:
    """Choose, measure and print one row for each method and read-out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--large", action="store_true", help="steps that are too large for the last iterate, only")
    options = parser.parse_args()
    split = DATASETS["digits"](None)
    assert split.test is not None
    (x, y), (test_x, test_y) = split.train, split.test
    x, test_x = 10 * nn.functional.normalize(x), 10 * nn.functional.normalize(test_x)
    held = torch.arange(len(y)) % 4 == 0
    print("| method | answer | setting | accuracy % | loss | calibration error |\n|---|---|---|---|---|---|")
    for name, method in METHODS.items():
        plan = method.plan()
        if options.large:
            runs = [answers(method, plan, LARGE[name], (x, y), (test_x, test_y)) for _ in range(options.runs)]
            for readout in READOUTS:
                show(name, LARGE[name], readout, [run[readout] for run in runs], test_y)
            continue
        grid = [dict(zip(method.settings, one, strict=True)) for one in itertools.product(*method.settings.values())]
        tried: dict[str, list[float]] = {readout: [] for readout in READOUTS}
        for setting in grid:
            runs = [answers(method, plan, setting, (x[~held], y[~held]), (x[held], y[held])) for _ in range(3)]
            for readout in READOUTS:
                tried[readout].append(statistics.mean(log_loss(run[readout], y[held]) for run in runs))
        done: dict[int, list[dict[str, Tensor]]] = {}
        for readout in READOUTS:
            best = min(range(len(grid)), key=lambda place: tried[readout][place])
            if best not in done:
                done[best] = [answers(method, plan, grid[best], (x, y), (test_x, test_y)) for _ in range(options.runs)]
            show(name, grid[best], readout, [run[readout] for run in done[best]], test_y)


def show(name: str, setting: Mapping[str, float], readout: str, found: list[Tensor], targets: Tensor) -> None:
    """One row: means and standard deviations over runs."""
    columns = (
        [100 * float((one.argmax(1) == targets).float().mean()) for one in found],
        [log_loss(one, targets) for one in found],
        [calibration_error(one, targets) for one in found],
    )
    cells = [
        f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"
        for values, digits in zip(columns, (1, 3, 3), strict=True)
    ]
    chosen = ", ".join(f"{key} {value:g}" for key, value in setting.items())
    print(f"| {name} | {readout} | {chosen} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
