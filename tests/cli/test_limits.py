"""`discreet epsilon --at-epsilon`, `--group`, and what `calibrate` finds when something else is left out."""

import json

import pytest

from discreet.cli.app import run

Capture = pytest.CaptureFixture[str]
BASE = ["--rate", "0.02"]
PLAN = [*BASE, "--noise", "1.2", "--steps", "400"]


def shown(capsys: Capture, *arguments: str) -> dict[str, object]:
    assert run([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert isinstance(result, dict)
    return result


def value(fields: dict[str, object], name: str) -> float:
    found = fields[name]
    assert isinstance(found, float | int)
    return float(found)


def test_delta_at_an_epsilon_is_the_inverse_of_epsilon_at_a_delta(capsys: Capture) -> None:
    forth = shown(capsys, "epsilon", *PLAN, "--delta", "1e-5")
    back = shown(capsys, "epsilon", *PLAN, "--at-epsilon", str(forth["epsilon"]))
    assert value(back, "delta") == pytest.approx(1e-5, rel=0.02)
    assert 0 < value(back, "delta_lower") <= value(back, "delta")
    assert {"epsilon", "lower", "delta", "adjacency", "method", "kind"} <= set(back)
    assert back["epsilon"] == forth["epsilon"]


def test_delta_as_text_and_by_an_estimate(capsys: Capture) -> None:
    assert run(["epsilon", *PLAN, "--at-epsilon", "1"]) == 0
    assert "proved by pld" in capsys.readouterr().out
    assert run(["epsilon", *PLAN, "--at-epsilon", "1", "--method", "clt"]) == 0
    out = capsys.readouterr().out
    assert "no guarantee" in out
    assert "proved" not in out


def test_where_nothing_is_proved_nothing_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    """By Rényi bounds, a batch that is often full has no finite epsilon; by its privacy loss it has."""
    plan = ["--sampling", "truncated", "--batch", "10", "--population", "100", "--capacity", "12", "--noise", "2"]
    for asked in (["--delta", "1e-5"], ["--at-epsilon", "9"]):
        assert run(["epsilon", *plan, "--steps", "10", *asked, "--method", "rdp"]) == 0
        assert "nothing is proved by rdp" in capsys.readouterr().out
        assert run(["epsilon", *plan, "--steps", "10", *asked]) == 0
        assert ", proved by pld" in capsys.readouterr().out


def test_groups(capsys: Capture) -> None:
    one = shown(capsys, "epsilon", *PLAN, "--delta", "1e-5")
    three = shown(capsys, "epsilon", *PLAN, "--delta", "1e-5", "--group", "3")
    assert three["group"] == 3
    assert three["kind"] == "guarantee"
    assert value(three, "epsilon") > value(one, "epsilon")
    assert run(["epsilon", *PLAN, "--delta", "1e-5", "--group", "3"]) == 0
    assert "for any 3 units together" in capsys.readouterr().out


LIMITS = [
    (["--epsilon", "1.5", "--delta", "1e-5"], "epsilon", 1.5),
    (["--mu", "0.4", "--delta", "1e-5"], "mu", 0.4),
    (["--tpr", "0.03", "--fpr", "0.01"], "tpr", 0.03),
    (["--advantage", "0.15"], "advantage", 0.15),
]
ABSENT = [
    (["--rate", "0.02", "--steps", "200"], "noise_multiplier"),
    (["--rate", "0.02", "--noise", "1.2"], "steps"),
    (["--noise", "1.2", "--steps", "200", "--population", "1000"], "sampling_rate"),
]


@pytest.mark.parametrize(("limit", "name", "most"), LIMITS)
@pytest.mark.parametrize(("given", "wanted"), ABSENT)
def test_calibrate_finds_what_is_left_out(
    capsys: Capture, given: list[str], wanted: str, limit: list[str], name: str, most: float
) -> None:
    found = shown(capsys, "calibrate", *given, *limit)
    assert 0.97 * most < value(found, name) <= most
    assert value(found, wanted) > 0
    assert found["kind"] == "guarantee"
    if wanted == "steps":
        assert value(found, "epochs") == pytest.approx(value(found, "steps") * 0.02)
    if wanted == "sampling_rate":
        assert value(found, "batch") == pytest.approx(1000 * value(found, "sampling_rate"))


def test_the_rate_of_a_schedule_under_a_limit_on_attacks(capsys: Capture) -> None:
    plan = ["--rate", "0.5", "--epochs", "4", "--schedule", "exponential:initial=6", "--advantage", "0.3"]
    found = shown(capsys, "calibrate", *plan)
    assert value(found, "rate") > 0
    assert value(found, "advantage") <= 0.3


def test_calibrate_as_text(capsys: Capture) -> None:
    assert run(["calibrate", "--sampling", "none", "--steps", "10", "--mu", "1"]) == 0
    assert "noise multiplier 3.16" in capsys.readouterr().out
    assert run(["calibrate", *BASE, "--noise", "1.2", "--epsilon", "1.5", "--delta", "1e-5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("steps ")
    assert "proved by pld" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["epsilon", *PLAN], "--at-epsilon"),
        (["epsilon", *PLAN, "--delta", "1e-5", "--at-epsilon", "1"], "--at-epsilon"),
        (["epsilon", *PLAN, "--at-epsilon", "1", "--group", "2"], "--group"),
        (["epsilon", *PLAN, "--at-epsilon", "-1"], "--at-epsilon"),
        (["epsilon", *PLAN, "--delta", "1e-5", "--group", "0"], "--group"),
        (["epsilon", *PLAN, "--delta", "1e-5", "--group", "2", "--method", "rdp"], "pld"),
        (["calibrate", *PLAN, "--epsilon", "1", "--delta", "1e-5"], "nothing is left to find"),
        (["calibrate", *PLAN], "one limit"),
        (["calibrate", *BASE, "--steps", "5", "--mu", "1", "--advantage", "0.1"], "one limit"),
        (["calibrate", *BASE, "--steps", "5", "--tpr", "0.1"], "--fpr"),
        (["calibrate", *BASE, "--steps", "5", "--mu", "1"], "--delta"),
        (["calibrate", *BASE, "--steps", "5", "--mu", "1", "--delta", "1e-5", "--method", "rdp"], "--method"),
        (["calibrate", *BASE, "--epochs", "5", "--noise", "1", "--schedule", "uniform:initial=1", "--mu", "1"], "mu"),
    ],
)
def test_bad_questions_are_one_line(capsys: Capture, arguments: list[str], says: str) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert says in captured.err


def test_shared_options_reach_every_command(capsys: Capture) -> None:
    for command in ("epsilon", "compare", "calibrate"):
        assert run([command, "--help"]) == 0
        out = capsys.readouterr().out
        for option in ("--sampling", "--rate", "--batch", "--population", "--noise", "--schedule", "--epochs"):
            assert option in out
