"""Tests that need a graphics card (CUDA). Without one they are skipped."""

import pytest
import torch

CARD = "cuda"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if "/cards/" in item.nodeid:
                item.add_marker(pytest.mark.skip(reason="needs a graphics card (CUDA)"))


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> str:
    """The card, where tiny trainings have their models in this test and in the processes that it starts."""
    import problems

    monkeypatch.setattr(problems, "DEVICE", CARD)
    monkeypatch.setenv("DISCREET_TEST_DEVICE", CARD)
    return CARD
