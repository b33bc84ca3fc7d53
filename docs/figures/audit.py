"""The pictures of docs/audit.md: `python docs/figures/audit.py` (a minute)."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[2] / "tests" / "support"))
from audited_builds import build
from broken_builds import all_broken
from dp_sgd_by_hand import CLIP, DIVISOR, NOISE, make, rows

from discreet.accounting.answers.tradeoff import GaussianTradeOff
from discreet.audit.builds.replay import Replay

HERE = Path(__file__).parent
SHOWN = {
    "a sound build": None,
    "clipped to 1.05 times the norm": "clipped_to_a_little_more",
    "divided by the batch drawn": "divided_by_the_batch",
    "rows meet": "rows_meet",
}


def moved_by_one_unit() -> None:
    """How far each canary moves what is released, in one sound build and three broken ones."""
    figure, axes = plt.subplots(1, len(SHOWN), figsize=(10, 3.6), sharey=True, layout="constrained")
    for axis, (title, name) in zip(axes, SHOWN.items(), strict=True):
        names, moved = replays(name)
        colours = ["tab:blue" if one <= 1.002 else "tab:red" for one in moved]
        axis.bar(range(len(moved)), np.clip(moved, 0, 4.2), color=colours)
        axis.axhline(1, color="black", linewidth=1)
        axis.set_title(title, fontsize=10)
        axis.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
    axes[0].set_ylim(0, 4)
    axes[0].set_ylabel("how far one unit moves a release,\nrelative to the sensitivity")
    figure.savefig(HERE / "audit-replay.png", dpi=140)
    plt.close(figure)


def replays(name: str | None) -> tuple[list[str], list[float]]:
    one = all_broken()[name or "clipped_to_a_little_more"]
    if name is None:
        outcomes = Replay(build(), steps=6).outcomes()
    else:
        with one.plant():
            outcomes = Replay(one.subject(), steps=6).outcomes()
    found = [one for one in outcomes if "moved" in one.figures]
    return [one.name.removeprefix("replay/").partition(",")[0] for one in found], [o.figures["moved"] for o in found]


def two_worlds() -> None:
    """Scores of releases with a loud row and without, at the noise that is claimed and at half of it; and what can be
    guessed from them, under the curve of the claim."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    claimed = 1 / NOISE
    for axis, share, title in zip(axes, (1.0, 0.5), ("as claimed", "half of the noise that is claimed"), strict=False):
        without, having = scores(share)
        bins = np.linspace(-4, 5, 46)
        axis.hist(without, bins, alpha=0.6, density=True, label="row not in the batch")
        axis.hist(having, bins, alpha=0.6, density=True, label="row in the batch")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("component along the row's gradient")
        cuts = np.linspace(-4, 5, 200)
        rates = [(np.mean(without > cut), np.mean(having > cut)) for cut in cuts]
        axes[2].plot(*zip(*rates, strict=True), label=title)
    axes[0].legend(fontsize=8)
    x = np.linspace(0, 1, 400)
    axes[2].plot(x, GaussianTradeOff(claimed).power(x), "k--", label="the most that is claimed")
    axes[2].set(xlabel="false positives", ylabel="true positives", title="what can be guessed")
    axes[2].title.set_fontsize(10)
    axes[2].legend(fontsize=8)
    figure.savefig(HERE / "audit-game.png", dpi=140)
    plt.close(figure)


def scores(share: float) -> tuple[np.ndarray, np.ndarray]:
    step = make(noise=lambda total: share * NOISE * CLIP * torch.randn_like(total))(*rows())
    x, y = rows()
    loud = torch.cat([x[:3], 30 * x[5:6]]), torch.cat([y[:3], y[5:6]])
    batches = (x[:3], y[:3]), loud

    def released(batch: tuple[torch.Tensor, torch.Tensor]) -> np.ndarray:
        return torch.cat([one.ravel() for one in step(*batch)]).detach().double().numpy() * DIVISOR / NOISE

    torch.manual_seed(0)
    first = released(batches[0])
    torch.manual_seed(0)
    apart = released(batches[1]) - first
    along = apart / np.linalg.norm(apart)
    torch.manual_seed(1)
    without, having = (np.array([released(batch) @ along for _ in range(1500)]) for batch in batches)
    middle = np.median(without)
    return without - middle, having - middle


if __name__ == "__main__":
    torch.set_num_threads(1)
    moved_by_one_unit()
    two_worlds()
