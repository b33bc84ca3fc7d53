"""The progress bar in a notebook: one output of the cell, with public figures and no times."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from problems import blobs, tiny_training

from discreet.training.callbacks import progress_bar as bars


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a kernel of Jupyter is asked to show, by IPython's own functions."""
    ipython = pytest.importorskip("IPython")
    shells = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    publisher = pytest.importorskip("IPython.core.displaypub").CapturingDisplayPublisher()
    shell = SimpleNamespace(kernel=object(), display_pub=publisher)
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell)
    monkeypatch.setattr(shells, "instance", lambda: shell)
    monkeypatch.setattr(shells, "initialized", lambda: True)
    return publisher.outputs  # type: ignore[no-any-return]


@pytest.mark.parametrize("progress", [None, True])
def test_a_notebook_has_one_bar_that_is_updated(tmp_path: Path, outputs: list[Any], progress: bool | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # rich warns at each refresh of its own bar where there is no ipywidgets
        tiny_training(tmp_path, public_test=blobs(9, seed=1)).run(progress=progress)
    assert [one["update"] for one in outputs] == [False] + [True] * (len(outputs) - 1)
    assert len({one["transient"]["display_id"] for one in outputs}) == 1
    assert outputs[0]["data"]["text/plain"].startswith("training: step 0 of 7, plan epsilon ")
    last = outputs[-1]["data"]
    assert last["text/plain"].startswith("training: step 7 of 7, plan epsilon ")
    assert "public test accuracy" in last["text/plain"]
    assert '<progress value="7" max="7"' in last["text/html"]
    assert ":" not in last["text/plain"].removeprefix("training:")  # no times: a notebook is saved and sent around


def test_a_notebook_has_no_bar_where_none_is_wanted(tmp_path: Path, outputs: list[Any]) -> None:
    tiny_training(tmp_path).run(progress=False)
    assert outputs == []


def test_a_bar_that_is_left_early_shows_how_far_it_came(outputs: list[Any]) -> None:
    def run() -> None:
        with bars.progress_bar(60, 2.0, 0, None) as advance:
            advance(1, None, "")
            advance(2, None, "clip norm <1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert outputs[-1]["data"]["text/plain"] == "training: step 2 of 60, plan epsilon 2, clip norm <1"
    assert outputs[-1]["data"]["text/html"].endswith("clip norm &lt;1")


def test_a_bar_says_no_lower_epsilon_than_the_plan(outputs: list[Any]) -> None:
    with bars.progress_bar(60, 1.00004, 0, None):
        pass
    assert outputs[-1]["data"]["text/plain"] == "training: step 0 of 60, plan epsilon 1.001"


def test_a_bar_on_a_terminal_says_no_lower_epsilon_than_the_plan(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with bars.progress_bar(60, 1.00004, 0, True) as advance:
        advance(1, None, "")
    assert "plan epsilon 1.001" in capfd.readouterr().err


def test_elsewhere_than_on_a_terminal_nothing_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiny_training(tmp_path).run()
    assert capfd.readouterr() == ("", "")


def test_a_run_that_goes_on_shows_where_it_is(tmp_path: Path, outputs: list[Any]) -> None:
    tiny_training(tmp_path).run(progress=False)
    tiny_training(tmp_path, resume=True).run()
    assert outputs[-1]["data"]["text/plain"].startswith("training: step 7 of 7, ")
