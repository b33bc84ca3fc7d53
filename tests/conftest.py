"""What all tests share: one thread, keys and a hypothesis profile that repeat, and the helpers in tests/support."""

import gc
import os
import sys
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # torch and NumPy look here, also in processes that tests start
# With wider registers, products of a single row round otherwise than those of a batch: the library measures that and
# covers it with noise, and tests that compare engines digit by digit take the kernels that every processor has.
os.environ["MKL_ENABLE_INSTRUCTIONS"] = "AVX2"

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))  # processes that tests spawn inherit it

from fresh_keys import pytest_fixture_setup, pytest_runtest_protocol  # noqa: F401
from known_checks import _known_checks, pytest_runtest_setup  # noqa: F401

BUSY: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("discreet", derandomize=True, **BUSY)  # the same examples every time
hypothesis.settings.register_profile("explore", **BUSY)  # new ones: pytest --hypothesis-profile explore
hypothesis.settings.load_profile("discreet")

SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text().splitlines())
"""Tests of the second tier: each takes longer than the others by far. A line is a test, or one case of it."""


@pytest.fixture(autouse=True)
def _own_ledger(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """No test sees or writes the ledger of whoever runs it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("DISCREET_LEDGER", raising=False)
        environment.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "share" / uuid.uuid4().hex))
        yield


@pytest.fixture(autouse=True)
def _own_width() -> Generator[None]:
    """What is printed is broken into the same lines, whatever the terminal of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COLUMNS", "80")
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="Run the tests of tests/slow.txt too.")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What tests import stays until the end: no collection of garbage looks at it, neither now nor in any test. Nor is
    there one for every few hundred objects: what a test itself loads late would be looked at each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the second tier out, unless it is asked for or a test is named."""
    if config.getoption("--all") or any("::" in argument for argument in config.args):
        return
    slow = {item for item in items if item.nodeid in SLOW or item.nodeid.partition("[")[0] in SLOW}
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]
