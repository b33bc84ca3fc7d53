"""What all tests share: one thread, keys and a hypothesis profile that repeat, and the helpers in tests/support."""

import os
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # torch and NumPy look here, also in processes that tests start

import hypothesis

sys.path.insert(0, str(Path(__file__).parent / "support"))  # processes that tests spawn inherit it

from fresh_keys import pytest_fixture_setup, pytest_runtest_protocol  # noqa: F401

hypothesis.settings.register_profile("discreet", deadline=None)
hypothesis.settings.load_profile("discreet")
