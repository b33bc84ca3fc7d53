"""Whether a run ends may not depend on a private count: grids that a sum might not lie on are refused beforehand."""

from pathlib import Path

import numpy as np
import pytest
from adaptive_runs import adaptive
from problems import blobs, linear, tiny_plan, tiny_training

from discreet.core.adjacency import Query
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.events import Gaussian
from discreet.core.release import Receipt
from discreet.data import as_private
from discreet.plan import Metric
from discreet.plan.adaptive.adaptive_plan import Counts
from discreet.randomness import NOISE_SAMPLERS, TestStream
from discreet.training.private_metrics.counts import noisy_count

COARSEST = float(np.nextafter(2.0**31, 0))
FINEST = 31 * 2.0**-21 * (1 + 2.0**-40)
"""Of up to 31 rows: 1.25 x 24, and one."""


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (2.0**31, "too coarse to count single rows; take noise below 2\\^31"),
        (3e9, "too coarse"),
        (2.0**200, "too coarse"),
        (31 * 2.0**-21, "too large for so little noise"),
    ],
)
def test_counts_that_might_not_lie_on_their_grid_are_refused(tmp_path: Path, noise: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        tiny_training(tmp_path, plan=adaptive(counts=Counts(noise=noise)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("noise", [COARSEST, FINEST])
def test_no_count_ends_a_run_with_what_is_admitted(tmp_path: Path, noise: float) -> None:
    tiny_training(tmp_path, plan=adaptive(counts=Counts(noise=noise)))  # admitted
    inputs, _ = blobs(30)
    model = linear()
    data = as_private((inputs, model(inputs).argmax(1)))  # all of them right, so that counts are those of rows
    receipt = Receipt("run", 0, 0, Gaussian(noise, Query.COUNT))
    for rows in range(31):
        found = noisy_count(model, data, np.arange(rows), receipt, TestStream(rows), NOISE_SAMPLERS["exact"])
        assert abs(found - rows) < 8 * noise  # false alarms: below 1e-14 each


def test_the_same_counts_ended_a_run_or_not_beyond_that() -> None:
    """What the refusal is for: an even count lies on the grid 2, an odd one does not."""
    model, data = linear(), as_private(blobs(3))
    receipt = Receipt("run", 0, 0, Gaussian(2.0**31, Query.COUNT))
    ended = []
    for right in range(3):
        targets = model(data.fetch(np.arange(3))[0]).argmax(1)
        targets[right:] = (targets[right:] + 1) % 3
        rows = as_private((data.fetch(np.arange(3))[0], targets))
        try:
            noisy_count(model, rows, np.arange(3), receipt, TestStream(right), NOISE_SAMPLERS["exact"])
        except PrivacyViolation:
            ended.append(right)
    assert ended == [1]


@pytest.mark.parametrize("kind", ["accuracy", "size"])
def test_more_held_out_rows_than_the_grid_was_checked_for_are_refused(tmp_path: Path, kind: str) -> None:
    """Six rows are declared in all, and the luck of the draw holds out twenty."""
    metrics = [Metric(noise=5.0, rows="holdout")]
    metrics += [Metric(kind="size", noise=5.0, rows="holdout")] if kind == "size" else []
    plan = tiny_plan(population=6, batch=3, metrics=metrics, holdout=0.5)
    assert plan.holdout is not None
    held = [name for name in range(200) if plan.holdout.holds_out(name)][:21]
    trained = [name for name in range(200) if not plan.holdout.holds_out(name)][:3]
    with pytest.raises(InputError, match="a metric would be bought of more units than the 9"):
        tiny_training(tmp_path, plan=plan, data=blobs(24), ids=held + trained)
    assert list(tmp_path.iterdir()) == []
