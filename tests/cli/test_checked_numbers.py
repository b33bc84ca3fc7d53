"""A number that cannot be is named by its option, not by what the library calls it."""

import pytest

from discreet.cli.app import run

SUGGEST = "suggest --population 1000 --epsilon 1"
CALIBRATE = "calibrate --rate 0.01 --steps 20"
BUDGET = "ledger budget --ledger l.sqlite --dataset-id a --epsilon 1 --delta 1e-5 --filter rdp-order"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{CALIBRATE} --epsilon 1 --delta 1", "--delta must be greater than 0 and less than 1, got 1.0"),
        (f"{CALIBRATE} --mu 1 --delta 2", "--delta must be greater than 0 and less than 1, got 2.0"),
        (f"{CALIBRATE} --tpr 0.1 --fpr 0", "--fpr must be greater than 0 and less than 1, got 0.0"),
        (f"{CALIBRATE} --tpr 2 --fpr 0.1", "--tpr must be greater than 0 and less than 1, got 2.0"),
        (f"{CALIBRATE} --advantage 1", "--advantage must be greater than 0 and less than 1, got 1.0"),
        ("epsilon --rate 0.01 --noise 1 --steps 5 --delta nan", "--delta must be a number, got NaN"),
        (
            "compare --rate 0.01 --noise 1 --steps 5 --delta 1",
            "--delta must be greater than 0 and less than 1, got 1.0",
        ),
        (f"{SUGGEST} --delta 1", "--delta must be greater than 0 and less than 1, got 1.0"),
        (f"{SUGGEST} --epochs -1", "--epochs must be finite and greater than 0, got -1.0"),
        (f"{SUGGEST} --parameters 0", "--parameters must be at least 1, got 0"),
        ("suggest --population 1000 --epsilon -1", "--epsilon must be finite and greater than 0, got -1.0"),
        ("suggest --population 0 --epsilon 1", "--population must be finite and greater than 0, got 0.0"),
        (f"{BUDGET} --rate 2 --noise 1 --steps 9", "--rate must be greater than 0 and at most 1, got 2.0"),
        (f"{BUDGET} --rate 0.1 --noise -1 --steps 9", "--noise must be finite and greater than 0, got -1.0"),
        (f"{BUDGET} --rate 0.1 --noise 1 --steps 0", "--steps must be at least 1, got 0"),
        ("ledger budget --dataset-id a --epsilon 0 --delta 1", "--epsilon must be finite and greater than 0, got 0.0"),
    ],
)
def test_a_number_that_cannot_be(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    assert capsys.readouterr().err == f"discreet: {said}\n"
