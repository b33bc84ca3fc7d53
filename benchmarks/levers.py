"""What each lever of docs/levers.md gains on the digits of scikit-learn, as rows for RESULTS.md.

python benchmarks/levers.py --runs 10

Every arm has the same budget. Its learning rate is chosen on a quarter of the training images, held out, and never on
the test part; the choice is not covered by epsilon, as the data is public.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from discreet import Plan, PublicData, Training
from discreet.data import DATASETS
from discreet.features import FRONT_ENDS, precompute
from discreet.methods import Averaging, DPAdamBC, standardise_weights

Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Arm:
    """A model on pixels or features, with an optimizer and its rates to choose from."""

    model: Callable[[int], nn.Module]
    optimizer: Callable[[nn.Module, float], torch.optim.Optimizer]
    rates: tuple[float, ...]
    features: str | None = None
    averaging: Averaging | None = None


def linear(inputs: int) -> nn.Module:
    """One layer that starts at zero."""
    layer = nn.Linear(inputs, 10, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


def deep(inputs: int) -> nn.Module:
    """Three layers from a declared seed."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def sgd(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """Plain SGD."""
    return torch.optim.SGD(model.parameters(), lr=rate)


def adam(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """torch's Adam."""
    return torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.99))


def corrected(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """DP-AdamBC, its floor a tenth of the noise's variance."""
    return DPAdamBC(model.parameters(), lr=rate, betas=(0.9, 0.99), floor=0.1 * NOISE**2)


STEPS, BATCH, EPSILON, DELTA = 80, 360, 1.0, 1e-4
PLAN = Plan.poisson(population=1437, batch=BATCH, steps=STEPS, clip_norm=1.0, delta=DELTA).calibrate(EPSILON)
NOISE = PLAN.noise[0].multiplier / BATCH
LARGE, SMALL = (0.3, 1.0, 3.0, 10.0), (0.003, 0.01, 0.03, 0.1)
ARMS = {
    "pixels, linear": Arm(linear, sgd, LARGE),
    "HOG, linear": Arm(linear, sgd, LARGE, "hog"),
    "random convolutions, linear": Arm(linear, sgd, LARGE, "random_convolutions"),
    "scattering, linear": Arm(linear, sgd, LARGE, "scattering"),
    "scattering, linear, tail average": Arm(linear, sgd, LARGE, "scattering", Averaging(start=STEPS // 2)),
    "scattering, linear, exponential average": Arm(linear, sgd, LARGE, "scattering", Averaging(decay=0.9)),
    "scattering, linear, Adam": Arm(linear, adam, SMALL, "scattering"),
    "scattering, linear, DP-AdamBC": Arm(linear, corrected, SMALL, "scattering"),
    "pixels, three layers": Arm(deep, sgd, LARGE),
    "pixels, three layers, weights standardised": Arm(lambda n: standardise_weights(deep(n)), sgd, LARGE),
}
OPTIONS = {
    "hog": {"cell": 2, "bins": 8},
    "random_convolutions": {"filters": 32, "width": 3, "pool": 2, "groups": 8},
    "scattering": {"scales": 1, "angles": 8, "groups": 9},
}


def seen(arm: Arm, inputs: Tensor) -> Tensor:
    """The rows that the arm's model is given: features, or pixels scaled to the same norm."""
    if arm.features is None:
        return 10 * nn.functional.normalize(inputs)
    images = inputs.view(-1, 1, 8, 8) / 16
    return precompute(FRONT_ENDS[arm.features]((1, 8, 8), **OPTIONS[arm.features]), images)


def accuracy(arm: Arm, rate: float, train: Rows, test: Rows) -> float:
    """One run: public accuracy at the end."""
    model = arm.model(train[0].shape[1])
    with tempfile.TemporaryDirectory() as folder:
        trained = Training(
            PLAN,
            model,
            nn.CrossEntropyLoss(),
            arm.optimizer(model, rate),
            train,
            public=PublicData(test=test),
            run=Path(folder) / "run",
            averaging=arm.averaging,
        ).run(evaluate_every=STEPS)
    return trained.evaluations[-1].metrics["accuracy"]


def main() -> None:
    """Choose, measure and print one row for each arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", default="", help="arms whose name has this in it")
    options = parser.parse_args()
    split = DATASETS["digits"](None)
    assert split.test is not None
    print("| arm | learning rate | mean accuracy | standard deviation | least | most |\n|---|---|---|---|---|---|")
    for name, arm in ARMS.items():
        if options.only not in name:
            continue
        (x, y), test = (seen(arm, split.train[0]), split.train[1]), (seen(arm, split.test[0]), split.test[1])
        held = torch.arange(len(y)) % 4 == 0
        found = {
            rate: statistics.mean(accuracy(arm, rate, (x[~held], y[~held]), (x[held], y[held])) for _ in range(3))
            for rate in arm.rates
        }
        best = max(found, key=lambda rate: found[rate])
        values = [accuracy(arm, best, (x, y), test) for _ in range(options.runs)]
        print(
            f"| {name} | {best:g} | {statistics.mean(values):.4f} | {statistics.stdev(values):.4f} | "
            f"{min(values):.4f} | {max(values):.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
