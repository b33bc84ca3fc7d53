"""`discreet epsilon` and `discreet calibrate`: what they print, and what they refuse."""

import json
import math
from pathlib import Path

import pytest

from discreet.cli.app import run

EPSILON = ["epsilon", "--rate", "0.01", "--noise", "1", "--steps", "100", "--delta", "1e-5"]
CALIBRATE = ["calibrate", "--rate", "0.01", "--epsilon", "1", "--steps", "100", "--delta", "1e-5"]
FIELDS = {"epsilon", "lower", "delta", "adjacency", "method", "kind"}

Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, arguments: list[str]) -> dict[str, object]:
    assert run([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert len(captured.out.splitlines()) == 1
    result = json.loads(captured.out)
    assert isinstance(result, dict)
    return result


def number(value: object) -> float:
    assert isinstance(value, float | int)
    return float(value)


def test_epsilon_fields_and_values(capsys: Capture) -> None:
    """Yu et al., figure 2, exact 1.28295 (shared/papers/README.md)."""
    found = shown(capsys, ["epsilon", "--rate", "0.01", "--noise", "6", "--steps", "40000", "--delta", "1e-5"])
    assert set(found) >= FIELDS
    assert (found["adjacency"], found["method"], found["kind"]) == ("add_remove", "pld", "guarantee")
    assert found["delta"] == 1e-5
    assert 0.9998 * 1.28295 <= number(found["epsilon"]) <= 1.003 * 1.28295
    assert number(found["lower"]) <= 1.28295


def test_batch_population_and_epochs_say_the_same(capsys: Capture) -> None:
    spelled = ["epsilon", "--batch", "600", "--population", "60000", "--noise", "6", "--epochs", "400"]
    found = shown(capsys, [*spelled, "--delta", "1e-5"])
    same = shown(capsys, ["epsilon", "--rate", "0.01", "--noise", "6", "--steps", "40000", "--delta", "1e-5"])
    assert found == same


def test_without_sampling_and_by_rdp(capsys: Capture) -> None:
    plain = ["epsilon", "--sampling", "none", "--noise", "6", "--steps", "400", "--delta", "1e-5"]
    exact, rdp = shown(capsys, plain), shown(capsys, [*plain, "--method", "rdp"])
    assert round(number(exact["epsilon"]), 2) == 19.13  # shared/papers/README.md
    assert number(exact["lower"]) <= number(exact["epsilon"]) <= number(rdp["epsilon"])
    assert rdp["lower"] is None
    assert rdp["method"] == "rdp"
    replaced = shown(capsys, [*plain, "--adjacency", "replace_one"])
    assert number(replaced["epsilon"]) > 2 * number(exact["epsilon"])


def test_noise_list(capsys: Capture, tmp_path: Path) -> None:
    listed = tmp_path / "noise.json"
    listed.write_text("[[1, 40], [1.0, 60]]")
    found = shown(capsys, ["epsilon", "--rate", "0.01", "--noise-list", str(listed), "--delta", "1e-5"])
    assert found == shown(capsys, EPSILON)


def test_infinity_is_json(capsys: Capture) -> None:
    given = ["epsilon", "--rate", "0.5", "--noise", "0.1", "--steps", "1000", "--delta", "1e-300", "--group", "1000"]
    assert shown(capsys, given)["epsilon"] == math.inf


def test_calibrate(capsys: Capture) -> None:
    found = shown(capsys, CALIBRATE)
    assert set(found) >= {*FIELDS, "noise_multiplier"}
    assert number(found["lower"]) <= number(found["epsilon"]) <= 1
    noise = number(found["noise_multiplier"])
    back = ["epsilon", "--rate", "0.01", "--steps", "100", "--delta", "1e-5", "--noise"]
    assert shown(capsys, [*back, repr(noise)])["epsilon"] == found["epsilon"]
    assert number(shown(capsys, [*back, repr(0.999 * noise)])["epsilon"]) > 1


def test_text_is_one_line(capsys: Capture) -> None:
    assert run(EPSILON) == 0
    out = capsys.readouterr().out
    assert out.startswith("epsilon ")
    assert len(out.splitlines()) == 1


def without(arguments: list[str], option: str) -> list[str]:
    at = arguments.index(option)
    return arguments[:at] + arguments[at + 2 :]


def having(arguments: list[str], option: str, value: str) -> list[str]:
    return [*without(arguments, option), option, value] if option in arguments else [*arguments, option, value]


BAD: list[tuple[list[str], str]] = [
    *[
        (having(command, option, value), option)
        for command, option in [
            (EPSILON, "--rate"),
            (EPSILON, "--noise"),
            (EPSILON, "--delta"),
            (EPSILON, "--steps"),
            (CALIBRATE, "--epsilon"),
            (CALIBRATE, "--delta"),
        ]
        for value in ["nan", "-1", "0", "inf", "many"]
    ],
    (having(EPSILON, "--delta", "1"), "--delta"),
    (having(EPSILON, "--delta", "1.5"), "--delta"),
    (having(EPSILON, "--rate", "1.5"), "--rate"),
    (having(EPSILON, "--steps", "1.5"), "--steps"),
    (without(EPSILON, "--delta"), "--delta"),
    (without(EPSILON, "--noise"), "--noise"),
    (without(EPSILON, "--steps"), "--steps"),
    (without(EPSILON, "--rate"), "--rate"),
    (without(CALIBRATE, "--epsilon"), "--epsilon"),
    ([*EPSILON, "--batch", "5"], "--batch"),
    ([*EPSILON, "--epochs", "5"], "--epochs"),
    ([*EPSILON, "--sampling", "none"], "--rate"),
    ([*without(EPSILON, "--rate"), "--batch", "5"], "--population"),
    ([*without(EPSILON, "--rate"), "--batch", "5", "--population", "nan"], "--population"),
    ([*without(EPSILON, "--rate"), "--batch", "-5", "--population", "100"], "--batch"),
    ([*without(EPSILON, "--rate"), "--batch", "500", "--population", "100"], "--batch"),
    ([*EPSILON, "--sigma", "5"], "--sigma"),
    ([*EPSILON, "--method", "magic"], "--method"),
    ([*EPSILON, "--adjacency", "swap"], "--adjacency"),
    ([*EPSILON, "--adjacency", "replace_one"], "adjacency"),
    (["epsilonn"], "epsilonn"),
]


@pytest.mark.parametrize(
    ("arguments", "option"), BAD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bad_input_is_one_line_that_names_the_option(capsys: Capture, arguments: list[str], option: str) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert option.lstrip("-") in captured.err


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "{}", "[]", "[1]", "[[1]]", "[[1, 2, 3]]", "[[0, 5]]", "[[NaN, 5]]", "[[1, 0]]", "[[1, 2.5]]",
     '[["1", 2]]', "[[1, true]]"],
)  # fmt: skip
def test_bad_noise_lists(capsys: Capture, tmp_path: Path, text: str | None) -> None:
    listed = tmp_path / "noise-list.json"
    if text is not None:
        listed.write_text(text)
    assert run(["epsilon", "--rate", "0.01", "--noise-list", str(listed), "--delta", "1e-5"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert str(listed) in captured.err


def test_delta_and_epsilon_are_shown_rounded_up(capsys: Capture) -> None:
    """To the nearest they would be 0.000695894 and 1.23456: a promise that is not proved."""
    assert run([*EPSILON[:-1], str(1 / 1437)]) == 0
    assert " at delta 0.000695895, " in capsys.readouterr().out
    assert run(["calibrate", *CALIBRATE[1:-1], str(1 / 1437)]) == 0
    assert " at delta 0.000695895, " in capsys.readouterr().out
    assert run([*EPSILON[:-2], "--at-epsilon", "1.2345612"]) == 0
    assert " at epsilon 1.23457, " in capsys.readouterr().out
