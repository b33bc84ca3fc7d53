"""A table with several rows per person, as `--unit patient` trains on it: drawn, limited and clipped by person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from scipy import stats
from torch import Tensor, nn

from discreet.jobs.tables.table_facts import TableFacts
from discreet.jobs.tables.table_source import TableSource, recipe_for
from discreet.plan import NoSampling, Plan, PoissonSampling
from discreet.randomness import TestStream
from discreet.training import RunOptions, Training

PEOPLE, MOST, RATE, STEPS = 12, 3, 0.4, 80
HEAVY = PEOPLE - 1
FALSE_ALARM = 1e-9
"""Of each test below, were the seeds not fixed."""

SCHEMA: dict[str, Any] = {
    "unit": "patient",
    "others": "ignore",
    "rows_per_unit": MOST,
    "population": PEOPLE,
    "target": "ill",
    "columns": {
        "number": {"type": "number", "low": 0, "high": 100},
        "visit": {"type": "number", "low": 0, "high": 100},
        "ward": {"type": "category", "categories": ["A", "B"], "missing": "drop"},
        "ill": {"type": "boolean"},
    },
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, *, heavy: int) -> Path:
    """Patient i has 1 + i % 3 visits, the last one `heavy` visits, in any order, among rows that are left out."""
    rows = [(i, visit) for i in range(PEOPLE - 1) for visit in range(1 + i % 3)]
    rows += [(HEAVY, visit) for visit in range(heavy)]
    order = np.random.Generator(np.random.PCG64(2)).permutation(len(rows))
    lines = ["patient,number,visit,ward,ill"]
    for place in order:
        i, visit = rows[place]
        lines += [f"P-{i},{i},{visit},{'AB'[visit % 2]},{int(i == HEAVY or i % 2)}", f"P-{i},{i},99,,1"]
    Path(name).write_text("\n".join(lines) + "\n")
    return Path(name)


@contextmanager
def training(path: Path, plan: Plan, unit: str = "patient") -> Iterator[Training]:
    """On the table, as the command assembles it, with a made-up stream."""
    Path("s.yaml").write_text(yaml.safe_dump(SCHEMA | {"unit": unit, "rows_per_unit": MOST if unit != "row" else 1}))
    budget = {"epsilon": 3.0, "delta": 1e-3}
    recipe = recipe_for(path, TableFacts(schema=Path("s.yaml")), [], budget)
    assert recipe.table is not None
    with TableSource(path, None).opened(recipe, recipe.table, Path("run")) as ready:
        model = recipe.build_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        own = {"units": ready.units, "run": RunOptions(stream=TestStream(4)), "engine": "bookkeeping"}
        yield Training(plan, model, ready.criterion, optimizer, ready.data, **own)


def plan(sampling: Any, steps: int, **facts: Any) -> Plan:
    facts = {"unit": "user", "rows_per_unit": MOST, "population": PEOPLE} | facts
    return Plan.make(sampling, steps=steps, clip_norm=0.01, delta=1e-3, noise_multiplier=1.0, **facts)


def test_a_step_draws_people_and_takes_at_most_so_many_rows_of_each() -> None:
    drawn, visits, loss = Counter[int](), Counter[int](), nn.CrossEntropyLoss()
    table = write("t.csv", heavy=50)
    with training(table, plan(PoissonSampling(rate=RATE), STEPS)) as made, made.session() as session:
        assert len(made.data) == PEOPLE
        while not session.finished:
            with session.step() as step:
                for chunk in step.chunks:
                    whose = [(round(float(a * 100)), round(float(b * 100))) for a, b in chunk[0][:, :2]]
                    assert len(set(whose)) == len(whose)
                    for person, rows in Counter(person for person, _ in whose).items():
                        assert rows == min(MOST, 50 if person == HEAVY else 1 + person % 3)
                        drawn[person] += 1
                    visits.update(visit for person, visit in whose if person == HEAVY)
                    step.add(loss, chunk)
    assert stats.binomtest(drawn[HEAVY], STEPS, RATE).pvalue > FALSE_ALARM  # 50 rows, drawn no more often than one
    assert stats.binomtest(sum(drawn.values()), STEPS * PEOPLE, RATE).pvalue > FALSE_ALARM
    counts = [visits[visit] for visit in range(50)]
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    assert 99 not in visits  # rows that a treatment drops are nobody's


def moved(column: str, population: int = PEOPLE, **facts: Any) -> float:
    """How far one step over everybody goes when all rows of a person are left out, with the same noise."""
    ends: list[Tensor] = []
    for heavy in (50, 0):
        own = plan(NoSampling(), 1, population=population, **facts)
        with training(write("t.csv", heavy=heavy), own, column) as made:
            made.run()
        ends.append(torch.cat([one.detach().flatten() for one in made.model.parameters()]).double())
    return float((ends[0] - ends[1]).norm()) * population


def test_all_rows_of_a_person_together_move_a_step_by_the_clip_norm_at_most() -> None:
    assert 0.0099 < moved("patient") <= 0.01 * (1 + 1e-4)
    by_row = moved("row", unit="example", rows_per_unit=1, population=200)
    assert by_row > 0.1  # as single rows the same person would move it fifty times as far
