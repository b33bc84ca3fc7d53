"""What all tests share: one thread, a hypothesis profile without deadlines, and the helpers in tests/support."""

import sys
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))  # processes that tests spawn inherit it

hypothesis.settings.register_profile("discreet", deadline=None)
hypothesis.settings.load_profile("discreet")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """The machine is shared; only tests that have loaded torch need to hold it back."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
