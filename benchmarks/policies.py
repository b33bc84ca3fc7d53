"""Noise and batches by progress against fixed plans at one budget: Lecuyer 2021, section 5, Figures 1 and 2; resumable.

python benchmarks/policies.py --data DIR --out benchmarks/results/policies.jsonl --seeds 3
python benchmarks/policies.py --data DIR --out quick.jsonl --seeds 1 --epochs 4

A network with one hidden layer on frozen convolutional features of a subset of CIFAR-10 (20,000 images to train,
4,000 to test): directions of edges at two scales and colours, pooled, with no statistics of the data. As in the
paper: noise 1, clip norm 1, 98 Poisson batches an epoch, counts with noise 100 every ten epochs. The budget is that
of a Rényi filter for 100 epochs. `fixed` spends it under that filter; `fixed, exact` is a plan that certifies the
same epsilon by privacy loss distributions, so with less noise: what a fixed course can do. `batch, one order` has a
filter at one order in place of one at all orders, for the same epsilon. `tuned`, fifty epochs at
noise 1, and `tuned by counts`, which starts at noise 2, are those of Figure 2, to be read with an odometer.

Every run is one line of the results: accuracy on public test images after every epoch (of 98 steps), noise and expected
batch of each stretch. What is there is not run again. Runs of a seed start from the same weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet import AdaptivePlan, Plan, Training, guarantee
from discreet.core.event_json import from_json
from discreet.core.events import Gaussian, Poisson, Repeat, flatten
from discreet.ledger import Entry
from discreet.plan import BatchByProgress, Constant, Counts, NoiseByProgress
from discreet.recipes.models import mlp

DELTA = 1e-5
STEPS = 98
"""Steps an epoch."""

ADAPTIVE = {
    "fixed": (Constant(), 1.0, None),
    "noise": (NoiseByProgress(step=0.1), 1.0, 10),
    "batch": (BatchByProgress(step=51.0, least=102.0), 1.0, 10),
    "batch, one order": (BatchByProgress(step=51.0, least=102.0), 1.0, 10),
    "tuned by counts": (NoiseByProgress(step=0.1, least=1.0, save=False), 2.0, 1),
}
NAMES = ("fixed", "fixed, exact", "noise", "batch", "batch, one order", "tuned", "tuned by counts")


def main() -> None:
    """Run what is missing, and print the table of what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=100, help="what the budget is for")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--rate", type=float, default=0.2, help="learning rate")
    parser.add_argument("--runs", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--held-out", action="store_true", help="choose settings on a fifth of the training images")
    options = parser.parse_args()
    torch.set_num_threads(1)
    facts = {key: getattr(options, key) for key in ("epochs", "hidden", "rate", "held_out")}
    data = features_of(options.data, options.held_out)
    for seed in range(options.seeds):
        for name in options.runs:
            key = {"name": name, "seed": seed, **facts}
            if not any(key.items() <= done.items() for done in results(options.out)):
                line = json.dumps(key | run(name, seed, options, *data))
                with options.out.open("a") as file:
                    file.write(line + "\n")
    table([done for done in results(options.out) if facts.items() <= done.items()])


Pair = tuple[Tensor, Tensor]


def run(name: str, seed: int, options: argparse.Namespace, train: Pair, test: Pair) -> dict[str, object]:
    """One run: what it certifies, how accurate it is over time, and what it chose."""
    plan = plan_of(name, len(train[0]), options.epochs)
    model = mlp(train[0].shape[1], 10, [options.hidden], seed=seed)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        trained = Training(
            plan,
            model,
            nn.CrossEntropyLoss(),
            torch.optim.SGD(model.parameters(), lr=options.rate),
            train,
            public_test=test,
            run_dir=Path(folder) / "run",
        ).run(evaluate_every=STEPS)
    curve = [[evaluation.step, round(evaluation.metrics["accuracy"], 5)] for evaluation in trained.evaluations]
    return {
        "epsilon": plan.guarantee().epsilon,
        "accuracy": curve[-1][1],
        "curve": curve,
        "events": charged(trained.entries),
        "seconds": round(time.process_time() - began),
    }


def plan_of(name: str, rows: int, epochs: int) -> Plan | AdaptivePlan:
    """The plan of a run; all but those of Figure 2 have the same budget."""
    rate = 1 / STEPS
    course = Repeat(Poisson(rate, Gaussian(1.0)), STEPS * epochs)
    epsilon = 1.001 * guarantee(course, DELTA, method="rdp").epsilon  # what the filter is loosened by, and a bit
    facts = {"population": rows, "batch": rows * rate, "clip_norm": 1.0, "delta": DELTA}
    if name == "fixed, exact":
        return Plan.poisson(steps=STEPS * epochs, **facts).calibrate(epsilon)
    if name == "tuned":
        return Plan.poisson(steps=STEPS * epochs // 2, noise_multiplier=1.0, **facts)
    policy, noise, every = ADAPTIVE[name]
    return AdaptivePlan.poisson(
        epsilon=epsilon,
        policy=policy,
        noise_multiplier=noise,
        course=course,
        every=every or 10,
        counts=None if every is None else Counts(noise=100.0),
        filter_kind="rdp-order" if name.endswith("one order") else "rdp-curve",
        most_steps=STEPS * (epochs // 2 if name.startswith("tuned") else 4 * epochs),
        **facts,
    )


def charged(entries: tuple[Entry, ...]) -> list[list[float]]:
    """[steps, multiplier, rate] of what the ledger charged, in order; rate 0 is a count."""
    found: list[list[float]] = []
    for entry in entries:
        if entry.kind != "reservation":
            continue
        for event, count in flatten(from_json(entry.content)):
            inner = event.event if isinstance(event, Poisson) else event
            assert isinstance(inner, Gaussian)
            rate = event.rate if isinstance(event, Poisson) else 0.0
            if found and found[-1][1:] == [inner.noise_multiplier, rate]:
                found[-1][0] += count
            else:
                found.append([count, inner.noise_multiplier, rate])
    return found


def features_of(folder: Path, held_out: bool) -> tuple[Pair, Pair]:
    """Training and test part; with `held_out`, four fifths and one fifth of the training part."""
    arrays = np.load(folder / "cifar10" / "cifar10_subset.npz")
    train, test = (
        (features(torch.from_numpy(arrays[f"x_{part}"])), torch.from_numpy(arrays[f"y_{part}"].astype(np.int64)))
        for part in ("train", "test")
    )
    if not held_out:
        return train, test
    cut = 4 * len(train[0]) // 5
    return (train[0][:cut], train[1][:cut]), (train[0][cut:], train[1][cut:])


def features(images: Tensor) -> Tensor:
    """Frozen convolutions: (n, 32, 32, 3) bytes to (n, 560) numbers, each row of norm 10. No row affects another."""
    pixels = images.permute(0, 3, 1, 2).float() / 255
    grey = pixels.mean(1, keepdim=True)
    fine, coarse = edges(grey), edges(F.avg_pool2d(grey, 2))
    parts = [F.adaptive_avg_pool2d(fine, 5), F.adaptive_avg_pool2d(coarse, 5), F.adaptive_avg_pool2d(pixels - 0.5, 4)]
    joined = torch.cat([F.normalize(part.flatten(1), dim=1) for part in parts], dim=1)
    return 10 * F.normalize(joined, dim=1)


def edges(grey: Tensor) -> Tensor:
    """How strong the edges of eight directions are at each pixel, relative to all at that pixel: (n, 8, h, w)."""
    padded = F.pad(grey, (1, 1, 1, 1), mode="replicate")
    across, down = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2], padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    angles = 2 * torch.pi * torch.arange(8) / 8
    strength = F.relu(torch.cat([across * torch.cos(angle) + down * torch.sin(angle) for angle in angles], dim=1))
    return strength / (strength.square().mean(1, keepdim=True) + 1e-3).sqrt()


def results(path: Path) -> list[dict[str, object]]:
    """The runs that are there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(done: list[dict[str, object]]) -> None:
    """Certified epsilon, length and accuracy at the end, in percent, with the least and the most."""
    print("| run | certified epsilon | epochs | runs | accuracy % | least | most |")
    print("|---|---|---|---|---|---|---|")
    for name in NAMES:
        runs = [run for run in done if run["name"] == name]
        if not runs:
            continue
        values = [100 * float(str(run["accuracy"])) for run in runs]
        lengths = sorted(epochs_of(run) for run in runs)
        print(
            f"| {name} | {float(str(runs[0]['epsilon'])):.4f} | {lengths[0]:.0f} to {lengths[-1]:.0f} | {len(runs)} | "
            f"{statistics.mean(values):.2f} | {min(values):.2f} | {max(values):.2f} |"
        )


def epochs_of(run: dict[str, object]) -> float:
    """How often a run went over the data, counts not included."""
    events = run["events"]
    assert isinstance(events, list)
    return float(sum(steps * rate for steps, _, rate in events))


if __name__ == "__main__":
    main()
