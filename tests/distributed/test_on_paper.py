"""Estimates of steps on graphics cards, against figures that were worked out by hand from the same assumptions."""

import json

import pytest

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.distributed.on_paper import CARDS, NETWORKS, card_named, collective, replicated_step


@pytest.mark.parametrize(
    ("processes", "network", "plain", "private", "ratio"),
    [(8, "fast", 0.050, 0.067, 1.35), (128, "fast", 0.050, 0.065, 1.31), (8, "slow", 0.073, 0.152, 2.08)],
)
def test_a_hundred_million_weights(processes: int, network: str, plain: float, private: float, ratio: float) -> None:
    """Four passes of 8,192 tokens a card at 6 x 10^8 operations a token and 400 Tflop/s: 0.049 s; sums of 800 MB and
    means of 400 MB, the noise of 10^8 / W numbers on 12 cores. (To two or three digits.)"""
    operations = 4 * 8192 * 6e8 * processes
    found = replicated_step(operations, 1e8, processes, CARDS["H100"], NETWORKS[network])
    assert found.plain_seconds == pytest.approx(plain, abs=0.006)
    assert found.private_seconds == pytest.approx(private, abs=0.006)
    assert found.ratio == pytest.approx(ratio, abs=0.02)


def test_private_training_sends_half_as_much_again() -> None:
    found = replicated_step(1e15, 1e8, 8, CARDS["H100"], NETWORKS["fast"])
    assert (found.plain_sent, found.private_sent) == (7e8, 1.05e9)
    assert collective(1e9, 1, 1e9) == 0


def test_an_unknown_card_is_refused() -> None:
    with pytest.raises(InputError, match="unknown card 'H300'; known: A100, H100, H200"):
        card_named("H300")


def test_the_plan_of_a_recipe_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "mnist", "--no-probe", "--processes", "8", "--cards", "H200"]) == 0
    said = capsys.readouterr().out
    assert "on paper, 8 H200, the model whole on each" in said
    assert "no card was measured" in said
    assert run(["plan", "mnist", "--no-probe", "--processes", "8", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["on_cards"]
    assert facts["step_seconds"]["slow"] > facts["step_seconds"]["fast"] > 0
    assert min(facts["over_plain"].values()) > 1
