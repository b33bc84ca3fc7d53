"""`discreet compare`, `--method`, `--schedule` and rates found by `calibrate`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.accounting.account import Method
from discreet.cli.app import run
from discreet.cli.show.compare_plot import spread

PLAN = ["--rate", "0.01", "--noise", "2", "--steps", "200", "--delta", "1e-5"]
Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, arguments: list[str]) -> dict[str, object]:
    assert run([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert isinstance(result, dict)
    return result


def test_compare_lists_every_method_with_kind_and_reason(capsys: Capture) -> None:
    found = shown(capsys, ["compare", *PLAN])
    rows = found["methods"]
    assert isinstance(rows, list)
    assert [row["method"] for row in rows] == [method.value for method in Method]
    assert {row["kind"] for row in rows} == {"guarantee", "estimate", "as_published", "not_available"}
    for row in rows:
        assert row["why"].endswith(".")
        assert row["why"][0].isupper()
        assert "ot available" not in row["why"], "the kind says so"
        assert (row["epsilon"] is None) == (row["kind"] == "not_available")
        alone = run(["epsilon", *PLAN, "--method", row["method"], "--json"])
        captured = capsys.readouterr()
        assert alone == (2 if row["epsilon"] is None else 0)
        if row["epsilon"] is not None:
            single = json.loads(captured.out)
            assert (single["epsilon"], single["kind"]) == (row["epsilon"], row["kind"])
            assert ("reason" in single) == (row["kind"] != "guarantee")
            assert ("source" in single) == (row["kind"] == "as_published")


def test_compare_as_text(capsys: Capture) -> None:
    assert run(["compare", *PLAN]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(Method)
    assert lines[0].split() == ["method", "epsilon", "kind", "why"]


def test_only_a_guarantee_is_called_proved(capsys: Capture) -> None:
    assert run(["epsilon", *PLAN]) == 0
    assert "proved by pld" in capsys.readouterr().out
    for method, says in (("clt", "an estimate"), ("moments", "as published")):
        assert run(["epsilon", *PLAN, "--method", method]) == 0
        out = capsys.readouterr().out
        assert "proved by" not in out
        assert says in out
        assert "no guarantee" in out


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot(capsys: Capture, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"picture.{ending}"
    assert run(["compare", *PLAN, "--plot", str(target)]) == 0
    assert target.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert target.stat().st_size > 10_000


@pytest.mark.parametrize("target", ["picture.pdf", "no/such/folder/picture.png"])
def test_plot_targets_are_checked_first(capsys: Capture, target: str) -> None:
    assert run(["compare", *PLAN, "--plot", target]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert target in captured.err


def test_labels_move_apart_in_order() -> None:
    assert spread([0.1, 0.5, 0.9], 0.05) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([0.52, 0.5, 0.5], 0.1) == pytest.approx([0.6066667, 0.4066667, 0.5066667])
    assert spread([], 0.1) == []


def test_compare_loads_matplotlib_for_a_plot_only() -> None:
    look = "import sys; sys.exit('matplotlib' in sys.modules)"
    code = f"from discreet.cli.app import run; run(['compare', *{PLAN}]); {look}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_schedule_is_the_noise_list_it_stands_for(capsys: Capture, tmp_path: Path) -> None:
    base = ["epsilon", "--rate", "0.01", "--delta", "1e-5"]
    found = shown(capsys, [*base, "--schedule", "step:initial=4,rate=0.5,period=1", "--epochs", "3"])
    listed = tmp_path / "noise.json"
    listed.write_text("[[4, 100], [2, 100], [1, 100]]")
    assert found == shown(capsys, [*base, "--noise-list", str(listed)])


@pytest.mark.parametrize(
    ("schedule", "rate"),
    [
        ("time:initial=10", 0.0281),
        ("step:initial=10,period=10", 0.7922),
        ("exponential:initial=10", 0.0193),
        ("polynomial:initial=10,end=2,period=100", 2.1948),
    ],
)
def test_calibrate_a_rate_under_rho(capsys: Capture, schedule: str, rate: float) -> None:
    """Yu et al. 2019, Table III at 50 epochs."""
    found = shown(
        capsys, ["calibrate", "--epochs", "50", "--schedule", schedule, "--rho", "0.78125", "--delta", "1e-5"]
    )
    assert found["rate"] == rate
    assert (found["adjacency"], found["method"], found["kind"]) == ("zero_out", "zcdp", "guarantee")
    assert isinstance(found["rho"], float)
    assert found["rho"] <= 0.78125


def test_calibrate_a_rate_under_epsilon(capsys: Capture) -> None:
    base = ["--rate", "0.1", "--epochs", "5", "--delta", "1e-5"]
    arguments = ["calibrate", *base, "--schedule", "exponential:initial=4", "--epsilon", "3"]
    found = shown(capsys, arguments)
    assert isinstance(found["epsilon"], float)
    assert found["epsilon"] <= 3
    schedule = f"exponential:initial=4,rate={found['rate']}"
    assert shown(capsys, ["epsilon", *base, "--schedule", schedule])["epsilon"] == found["epsilon"]
    longer = ["epsilon", "--rate", "0.1", "--epochs", "6", "--delta", "1e-5", "--schedule", schedule]
    assert float(str(shown(capsys, longer)["epsilon"])) > 3


EXPONENTIAL = ["--schedule", "exponential:initial=10"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["calibrate", "--epochs", "50", *EXPONENTIAL], "--epsilon"),
        (["calibrate", "--epochs", "50", *EXPONENTIAL, "--rho", "1", "--epsilon", "1"], "--rho"),
        (["calibrate", "--epochs", "50", "--rho", "1"], "--schedule"),
        (["calibrate", "--epochs", "2.5", *EXPONENTIAL, "--rho", "1"], "--epochs"),
        (["calibrate", *EXPONENTIAL, "--rho", "1"], "--epochs"),
        (
            ["calibrate", "--epochs", "50", "--schedule", "time:initial=1,rate=1", "--rho", "1"],
            "nothing is left",
        ),
        (["calibrate", "--epochs", "50", *EXPONENTIAL, "--rho", "nan"], "--rho"),
        (["calibrate", "--epochs", "50", *EXPONENTIAL, "--rho", "1", "--adjacency", "add_remove"], "zero_out"),
        (["calibrate", *PLAN[:2], *PLAN[4:], "--epsilon", "1", "--method", "clt"], "proves nothing"),
        (["epsilon", *PLAN, "--schedule", "uniform:initial=1"], "--schedule"),
        (["epsilon", *PLAN[:2], *PLAN[4:], "--schedule", "exponential:initial=1"], "rate is missing"),
        (["epsilon", *PLAN[:2], *PLAN[4:], "--schedule", "sawtooth:initial=1"], "sawtooth"),
        (["epsilon", *PLAN, "--method", "zcdp"], "use method pld or rdp"),
        (["epsilon", *PLAN, "--method", "gdp"], "clt"),
        (["compare", *PLAN[:-1], "2"], "delta"),
    ],
)
def test_bad_input_is_one_line(capsys: Capture, arguments: list[str], says: str) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert says in captured.err
