"""The pictures of docs/methods/dropout.md: `python docs/figures/dropout.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor, nn

from discreet import Plan, RunOptions, Training
from discreet.data import DATASETS
from discreet.methods import DPDropout, Posterior, calibration_error
from discreet.randomness import TestStream

HERE = Path(__file__).parent
POPULATION, STEPS, RUNS, BINS = 1437, 80, 5, 10
SHOWN = (5, 20, 80)


def one_run(seed: int) -> tuple[dict[int, Tensor], Tensor, Tensor, Tensor]:
    """Dropout rates of all weights after the steps `SHOWN`; probabilities of the last iterate, of averaged predictions,
    and the public test labels."""
    split = DATASETS["digits"](None)
    assert split.test is not None
    x, test = (10 * nn.functional.normalize(inputs) for inputs in (split.train[0], split.test[0]))
    model = nn.Linear(64, 10, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = DPDropout(model.parameters(), lr=30.0, decay=0.5, weight_decay=1 / POPULATION)
    posterior = Posterior(model, most=40, start=STEPS // 2).follow(optimizer)
    rates: dict[int, Tensor] = {}

    def note(*_: object) -> None:
        step = optimizer.state[model.weight]["step"]
        if step in SHOWN:
            rates[step] = optimizer.rates()[model.weight].flatten().clone()

    optimizer.register_step_post_hook(note)
    plan = Plan.poisson(population=POPULATION, batch=360, steps=STEPS, clip_norm=1.0, delta=1e-4).calibrate(1.0)
    with tempfile.TemporaryDirectory() as folder:
        Training(
            plan,
            model,
            nn.CrossEntropyLoss(),
            optimizer,
            (x, split.train[1]),
            run=RunOptions(Path(folder) / "run", stream=TestStream(seed)),
        ).run()
    with torch.no_grad():
        last = torch.softmax(model(test), 1)
    return rates, last, posterior.predict(test), split.test[1]


def pictures() -> None:
    """Dropout rates over the weights, and how often predictions are right where they are so sure."""
    found = [one_run(seed) for seed in range(RUNS)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    edges = np.geomspace(1e-4, 1, 41)
    for step, colour in zip(SHOWN, ("#9fc5e8", "#3d85c6", "#073763"), strict=True):
        alpha = torch.cat([rates[step] for rates, *_ in found])
        alpha = alpha[torch.isfinite(alpha)]
        share = (alpha / (1 + alpha)).numpy()
        left.hist(share, edges, weights=np.full(len(share), 100 / len(share)), histtype="step", color=colour, lw=2)
        left.plot([], [], color=colour, lw=2, label=f"after step {step}: median {np.median(share):.2g}")
    left.set(xscale="log", xlabel="dropout rate alpha / (1 + alpha)", ylabel="% of weights")
    left.legend(frameon=False, loc="upper left")
    right.plot([0, 1], [0, 1], color="black", linewidth=1)
    targets = torch.cat([labels for *_, labels in found])
    for name, place, colour in (("last iterate", 1, "#c0392b"), ("mean of predictions", 2, "#0b5394")):
        probabilities = torch.cat([run[place] for run in found])  # type: ignore[misc]
        sure, predicted = probabilities.max(1)
        bins = (sure * BINS).ceil().long() - 1
        rows = [bins == place for place in range(BINS)]
        points = [
            (float(sure[row].mean()), float((predicted == targets)[row].float().mean()))
            for row in rows
            if int(row.sum()) >= 20
        ]
        error = calibration_error(probabilities, targets)
        right.plot(*zip(*points, strict=True), "o-", color=colour, label=f"{name}: calibration error {error:.3f}")
    right.set(xlabel="probability of the predicted class", ylabel="share that is right", xlim=(0.2, 1), ylim=(0.2, 1))
    right.legend(frameon=False, loc="lower right")
    for axis in (left, right):
        axis.grid(alpha=0.3)
    figure.savefig(HERE / "dropout.png", dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    pictures()
