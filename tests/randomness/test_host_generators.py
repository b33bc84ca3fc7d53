"""The generators of NumPy and Python: every change of a state is noticed and undone."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from discreet.randomness import host_generators
from discreet.randomness.host_generators import HostGenerators

# ruff: noqa: NPY002

State = dict[str, Any]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    source, state, other = np.random.mtrand._rand._bit_generator, np.random.get_state(), random.getstate()  # type: ignore[attr-defined]
    np.random.seed(3)
    random.seed(3)
    yield
    np.random.mtrand.set_bit_generator(source)
    np.random.set_state(state)
    random.setstate(other)


def with_changed(change: Callable[[State], None]) -> Callable[[], None]:
    """Sets NumPy's state with one thing changed."""

    def act() -> None:
        state: State = copy.deepcopy(np.random.get_state(legacy=False))
        change(state)
        np.random.set_state(state)

    return act


def one_bit(state: State) -> None:
    state["state"]["key"][17] ^= 1


def another_source() -> None:
    np.random.mtrand.set_bit_generator(np.random.MT19937(5))


def another_kind() -> None:
    np.random.mtrand.set_bit_generator(np.random.PCG64(5))


CHANGES: dict[str, Callable[[], object]] = {
    "a number": np.random.rand,
    "a normal, whose second is kept": np.random.randn,
    "one bit of the words": with_changed(one_bit),
    "the place": with_changed(lambda state: state["state"].update(pos=state["state"]["pos"] - 1)),
    "whether a normal is kept": with_changed(lambda state: state.update(has_gauss=1 - state["has_gauss"])),
    "the normal that is kept": with_changed(lambda state: state.update(has_gauss=1, gauss=0.25)),
    "the source of words": another_source,
    "the kind of the source": another_kind,
    "a number of Python": random.random,
    "a normal of Python": lambda: random.gauss(0, 1),
    "the normal that Python keeps": lambda: random.setstate((*random.getstate()[:2], 0.25)),
}


def drawn() -> tuple[float, ...]:
    return (*np.random.randn(3), *np.random.rand(2), *(random.gauss(0, 1) for _ in range(3)), random.random())


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kept", [False, True], ids=["fresh", "with normals kept"])
def test_a_change_is_noticed_once_and_undone(name: str, kept: bool) -> None:
    if kept:
        np.random.randn(1), random.gauss(0, 1)
    start = np.random.get_state(legacy=False), random.getstate()
    wanted = drawn()
    np.random.set_state(start[0])
    random.setstate(start[1])
    host = HostGenerators()
    assert not host.rewind()
    CHANGES[name]()
    assert host.rewind()
    assert not host.rewind()
    assert drawn() == wanted


def test_a_kept_normal_that_is_taken_is_noticed() -> None:
    """Taking the second normal of a pair moves no word."""
    np.random.randn(1)
    host = HostGenerators()
    np.random.randn(1)
    assert host.rewind()


@pytest.mark.parametrize("name", CHANGES)
def test_without_reading_memory_it_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_generators, "_memory", lambda: None)
    test_a_change_is_noticed_once_and_undone(name, kept=True)


def test_a_source_of_another_kind_is_rewound() -> None:
    another_kind()
    host = HostGenerators()
    first = np.random.rand()
    assert host.rewind()
    assert np.random.rand() == first


def test_states_are_read_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    HostGenerators()
    monkeypatch.setattr(np.random, "get_state", None)
    assert not HostGenerators().rewind()
