"""The ziggurat's tables against mpmath."""

from collections.abc import Iterator
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from bell import bell

from discreet.randomness import ASSUMPTION
from discreet.randomness import ziggurat as ziggurat_module
from discreet.randomness.ziggurat import LAYERS, TAIL, Tables, tables


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def density_errors(table: Tables) -> tuple[mp.mpf, mp.mpf]:
    """Return by how much the tables' density, in exact arithmetic, differs from a normal's: largest and in the tail.

    At x the density of accepted points is the sum of 1 / width over the layers that reach beyond x, the one that
    ends there counted by its share below the curve. Each number is read from the float tables.
    """
    widths = [mp.mpf(unit) * 2**53 for unit in table.units]
    edges, heights = [mp.mpf(x) for x in table.edges], [mp.mpf(y) for y in table.heights]
    r = mp.mpf(TAIL)
    area = r * bell(r) + mp.sqrt(mp.pi / 2) * mp.erfc(r / mp.sqrt(2))
    tail = (widths[0] - edges[1]) / widths[0] * area / (area - r * bell(r)) - 1
    below, errors = 1 / widths[0], [area / widths[0] / bell(r) - 1]
    for i in range(1, LAYERS):
        for part in (0.03, 0.5, 0.97):
            x = edges[i] + (edges[i + 1] - edges[i]) * part
            share = (bell(x) - heights[i]) / (heights[i + 1] - heights[i])
            errors.append((below + share / widths[i]) * area / bell(x) - 1)
        below += 1 / widths[i]
    return max(abs(error) for error in errors), tail


def test_the_tables_have_the_density_of_a_normal() -> None:
    largest, tail = density_errors(tables())
    assert largest < 2.0**-49
    assert abs(tail) < 2.0**-45  # the tail as a whole, 5e-5 of all values: width x_0 - r is a difference
    assert "2^-48" in ASSUMPTION


@pytest.mark.parametrize("name", ["units", "heights"])
def test_one_wrong_number_in_a_table_is_seen(name: str) -> None:
    faulty = getattr(tables(), name).copy()
    faulty[500] *= 1 + 1e-11
    assert density_errors(replace(tables(), **{name: faulty}))[0] > 2.0**-47


def test_edges_and_heights_are_the_nearest_floats() -> None:
    table = tables()
    assert table.edges[1] == TAIL
    assert table.edges[-1] == 0
    assert (np.diff(table.edges) < 0).all()
    assert np.array_equal(table.units * 2.0**53, table.edges[:-1])
    assert (table.heights[0], table.heights[-1]) == (0, 1)
    for sign in (1, -1):  # on both sides of the r for which 1024 layers end at height 1
        r = mp.mpf(str(ziggurat_module._R)) - sign * mp.mpf(10) ** -30
        area, x, height = r * bell(r) + mp.sqrt(mp.pi / 2) * mp.erfc(r / mp.sqrt(2)), r, bell(r)
        for edge, y in zip(table.edges[1:-1], table.heights[1:-1], strict=True):
            assert abs(x / mp.mpf(edge) - 1) <= 2.0**-53
            assert abs(height / mp.mpf(y) - 1) <= 2.0**-53
            height += area / x
            x = mp.sqrt(-2 * mp.log(height)) if height < 1 else mp.mpf(0)
        assert sign * (height - 1) > 0
