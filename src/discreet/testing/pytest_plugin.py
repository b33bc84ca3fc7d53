"""A plugin of pytest: what a test marked `private` returns is audited, and the test fails with what was found.

    @pytest.mark.private
    def test_my_training_is_private():
        return Training(plan, model, loss, optimizer, rows)

Options of the mark are those of `assert_private`. Torch is imported when such a test runs, not when pytest starts.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "private(**options): audit what the test returns, with discreet.testing")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Call the test, and audit what it returns."""
    mark = pyfuncitem.get_closest_marker("private")
    if mark is None:
        return None
    from discreet.core.errors import InputError
    from discreet.testing.assertions import assert_private

    names = pyfuncitem._fixtureinfo.argnames
    made = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    if made is None:
        raise InputError(f"{pyfuncitem.name} is marked private and returns nothing; return a Training or a function")
    assert_private(made, **mark.kwargs)
    return True
