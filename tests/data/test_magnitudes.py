"""Ranges of columns of which nothing is known: bins, what is read from noisy counts, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from instead import instead
from scipy.stats import norm

from discreet.cli.app import run
from discreet.core.events import Gaussian
from discreet.data.tables import Schema, events_bought, load_schema
from discreet.data.tables.drafting.ranges_bought import PRICE, noise_for
from discreet.data.tables.magnitudes import EIGHTHS, POWERS, noises, range_of

COLUMNS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "age": lambda seed: seed.integers(18, 95, 5000),
    "year": lambda seed: seed.integers(1980, 2024, 5000),
    "income": lambda seed: np.exp(seed.normal(10, 1, 5000)),
    "normal": lambda seed: seed.normal(size=5000),
    "temperature": lambda seed: seed.normal(37, 0.7, 5000),
    "count": lambda seed: seed.poisson(2, 5000),
    "share": lambda seed: seed.random(5000),
    "pressure": lambda seed: seed.normal(130, 20, 5000),
    "balance": lambda seed: seed.normal(0, 5000, 5000),
    "tiny": lambda seed: seed.exponential(1e-4, 5000),
    "constant": lambda seed: np.full(5000, 7.0),
}


def found(values: np.ndarray, noise: float, seed: np.random.Generator) -> tuple[float, float]:
    counts = [
        np.histogram(values, edges)[0] + seed.normal(0, deviation, len(edges) - 1)
        for edges, deviation in zip((POWERS, EIGHTHS), noises(noise), strict=True)
    ]
    return range_of(counts[0], counts[1], noise)


def test_every_power_is_cut_in_eight() -> None:
    for edges in (POWERS, EIGHTHS):
        assert all(one < other for one, other in pairwise(edges))
        assert edges == tuple(-edge for edge in reversed(edges))
    assert set(POWERS) < set(EIGHTHS)
    assert len(EIGHTHS) - 2 == 8 * (len(POWERS) - 2)  # but for the bin around zero
    for low, high in pairwise(EIGHTHS[len(EIGHTHS) // 2 :]):
        assert high - low == 2.0 ** (math.frexp(low)[1] - 4)


@given(st.floats(0.01, 1e6))
def test_both_histograms_cost_what_one_would(noise: float) -> None:
    """Gaussian releases with deviations a and b are one with 1/a^2 + 1/b^2 (Dong et al. 2022, corollary 3.3)."""
    powers, eighths = noises(noise)
    assert powers**-2 + eighths**-2 == pytest.approx(noise**-2)


def test_thirty_ranges_cost_what_is_said() -> None:
    """Epsilon by the closed form of the Gaussian mechanism (Balle and Wang 2018, theorem 8), with scipy."""
    noise = noise_for(30, 5000)
    assert noise == pytest.approx(50.9)
    columns = {f"x{i}": {"type": "number", "buy": {"noise": noise}} for i in range(30)}
    schema = Schema.model_validate({"target": "y", "columns": columns | {"y": {"type": "boolean"}}})
    events = [event for one in events_bought(schema, 1e-4).values() for event in one]
    assert len(events) == 60
    mu = sum(event.noise_multiplier**-2 for event in events if isinstance(event, Gaussian)) ** 0.5
    delta = norm.cdf(mu / 2 - PRICE / mu) - math.exp(PRICE) * norm.cdf(-mu / 2 - PRICE / mu)
    assert delta == pytest.approx(1e-4, rel=0.05)
    assert delta <= 1e-4


@pytest.mark.parametrize("name", COLUMNS)
def test_of_five_thousand_rows_nine_in_ten_are_inside(name: str) -> None:
    """At the noise of thirty columns, with fixed seeds: with others, a few more ranges may cover less."""
    seed = np.random.Generator(np.random.PCG64(7))
    covers, wide = [], []
    for _ in range(40):
        values = COLUMNS[name](seed).astype(float)
        low, high = found(values, 50.9, seed)
        covers.append(np.mean((low <= values) & (values < high)))
        wide.append(max(abs(low), abs(high)) / np.abs(values).max())
    assert np.median(covers) > 0.93
    assert np.quantile(covers, 0.05) > 0.85
    assert max(wide) <= 8


@given(st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=50), st.integers(0, 1000))
def test_without_noise_hardly_anybody_is_outside(values: list[float], seed: int) -> None:
    rows = np.repeat(np.array(values), 1000)
    low, high = found(rows, 0.01, np.random.Generator(np.random.PCG64(seed)))
    assert np.mean((low <= rows) & (rows <= high)) >= 0.9
    assert low < high


def test_of_noise_alone_some_range_is_found() -> None:
    low, high = found(np.empty(0), 10.0, np.random.Generator(np.random.PCG64(0)))
    assert -math.inf < low < high < math.inf


def drafted(folder: Path, *options: str) -> tuple[int, Path]:
    lines = [f"p{i},{i + 20},{i / 3:.4f},<0.5,{i}.5\n" for i in range(40)]
    (folder / "t.csv").write_text("".join(["id,age,x,lab,y\n", *lines]))
    out = folder / "s.yaml"
    fixed = ["schema", str(folder / "t.csv"), "--target", "y", "--buy", "ranges", "--out", str(out)]
    return run(instead(fixed, *options)), out


def test_a_draft_buys_what_nobody_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = drafted(tmp_path, "--unit", "row", "--population", "5000")
    assert code == 0
    facts = yaml.safe_load(out.read_text())["columns"]
    assert facts["x"] == {"type": "number", "buy": {"noise": noise_for(2, 5000)}}
    assert facts["lab"] == {"type": "number", "buy": {"noise": noise_for(2, 5000)}, "censored": "bound"}
    assert facts["age"] == {"type": "number", "low": 0, "high": 120}  # known by its name
    assert "s.yaml: fill in y" in capsys.readouterr().out  # of what is predicted, the range is declared
    assert "# The ranges of 2 columns are bought" in out.read_text()
    assert "CAREFUL" not in out.read_text()
    known = out.read_text().replace("low: FILL_IN, high: FILL_IN", "low: 0, high: 40")
    out.write_text(known)
    assert load_schema(out).columns["x"].buy is not None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--buy ranges: how loud the noise must be follows from --population"),
        (("--population", "5000", "--unit", "id"), "--buy ranges protects single rows"),
        (("--population", "5000", "--buy", "all"), "--buy takes ranges, got all"),
    ],
)
def test_what_cannot_be_bought(
    tmp_path: Path, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drafted(tmp_path, *options)[0] == 2
    assert said in capsys.readouterr().err


def test_few_rows_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the draft, and on the terminal in one line, without the head of the draft that follows."""
    code, out = drafted(tmp_path, "--population", "500")
    assert code == 0
    assert "# CAREFUL: 500 rows are few for that" in out.read_text()
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "CAREFUL" in line]
    assert said.startswith("CAREFUL: 500 rows are few for that")
    assert said.endswith("or lower the noise: the price rises.")
