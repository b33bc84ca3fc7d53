"""Estimates of steps on graphics cards, against figures that were worked out by hand from the same assumptions."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.distributed.on_paper import (
    CARDS,
    NETWORKS,
    StepEstimate,
    card_named,
    collective,
    replicated_step,
    sharded_step,
)

HUNDRED_MILLION = 8192 * 6e8
"""Operations of a pass of 8,192 tokens of a card."""


def hundred_million(passes: int, cards: int, network: str = "fast") -> StepEstimate:
    return replicated_step(passes * HUNDRED_MILLION * cards, 1e8, cards, CARDS["H100"], NETWORKS[network], passes)


def billion(passes: int, cards: int) -> StepEstimate:
    operations = passes * 8192 * 6 * 1.3e9 * cards
    return sharded_step(operations, (1.3e9, 4), 1.3e9, cards, CARDS["H100"], NETWORKS["fast"], passes, 26)


def adapters(passes: int, cards: int) -> StepEstimate:
    """Rank 16 on eight billion frozen weights in bfloat16, whose own gradients are not computed."""
    operations = passes * 8192 * 4 * 8e9 * cards
    return sharded_step(operations, (8e9, 2), 2e7, cards, CARDS["H100"], NETWORKS["fast"], passes, 34)


ROWS: dict[str, Callable[[int, int], StepEstimate]] = {
    "100 M, replicated": hundred_million,
    "1.3 B, sharded": billion,
    "8 B, adapters, sharded": adapters,
}


@pytest.mark.parametrize(
    ("processes", "network", "plain", "private"),
    [(8, "fast", 0.0499, 0.0925), (128, "fast", 0.0499, 0.0895), (8, "slow", 0.073, 0.177)],
)
def test_a_hundred_million_weights(processes: int, network: str, plain: float, private: float) -> None:
    """Four passes of 8,192 tokens a card at 6 x 10^8 operations a token and 400 Tflop/s: 0.0492 s, half as much again
    with clipping; 7.7 GB a chunk at 3.35 TB/s, 9.2 ms in all, and 1.2 ms for checks; sums of 800 MB and means of 400;
    of 10^8 / W numbers 1.9 ns on 12 cores, and 12 bytes to the host and back at 55 GB/s; two facts of 0.1 ms for every
    doubling. Noise of 3.9 ns is drawn beside the passes."""
    found = hundred_million(4, processes, network)
    assert found.plain_seconds == pytest.approx(plain, rel=0.01)
    assert found.private_seconds == pytest.approx(private, rel=0.01)


@pytest.mark.parametrize(("processes", "private"), [(1, 0.1218), (8, 0.810), (128, 0.927), (1024, 1.112)])
def test_by_messages_sums_go_to_one_process_after_the_other(processes: int, private: float) -> None:
    """The same but for sums and means: 1.2 GB less a W-th at 1.5 GB/s, twice W - 1 messages of 0.1 ms, and 1.2 GB to
    the host and back, 0.022 s."""
    assert hundred_million(4, processes).by_messages == pytest.approx(private, abs=0.0006)


def test_weights_that_are_shared_out() -> None:
    """A pass of 8,192 tokens: 0.160 s, with clipping 0.240; 5.2 GB less an eighth, twice, at 360 GB/s, and 26 times 75
    us: 0.029 s; sums of 10.4 GB: 0.027 s; a chunk of 100 GB moved: 0.030 s; the host's work on 1.6 x 10^8 numbers
    0.026 s and 0.035 s to the host and back, once in four passes."""
    found = billion(4, 8)
    assert found.parts["weights on the way"] == pytest.approx(4 * 0.0292, rel=0.02)
    assert found.parts["sums and means on the way"] == pytest.approx(4 * 0.0272, rel=0.02)
    assert found.private_seconds == pytest.approx(4 * (0.240 + 0.029 + 0.027 + 0.030) + 0.026 + 0.035, rel=0.01)
    assert found.private_sent - found.plain_sent == pytest.approx(4 * 4 * 1.3e9 * 7 / 8)


def test_the_tables_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
    for name, estimate in ROWS.items():
        for passes in (4, 400):
            (line,) = [one for one in page.splitlines() if one.startswith(f"| {name} | {passes} |")]
            said = [float(one) for one in line.split("|")[3:6]]
            found = [estimate(passes, cards) for cards in (8, 128, 1024)]
            assert [round(one.ratio, 2) for one in found] == said
    (line,) = [one for one in page.splitlines() if one.startswith("| by messages of gloo")]
    found = [hundred_million(4, cards) for cards in (8, 128, 1024)]
    ratios = [(one.by_messages or 0) / one.plain_seconds for one in found]
    assert [round(one, 1) for one in ratios] == [float(one) for one in line.split("|")[3:6]]
    for part in ("passes with clipping", "rounding of chunks", "weights on the way", "sums and means on the way"):
        (line,) = [one for one in page.splitlines() if one.startswith(f"| {part} |")]
        said = [float(one) for one in line.split("|")[2:5] if one.strip() != "-"]
        steps = [estimate(4, 128) for estimate in ROWS.values()]
        assert [round(one.parts[part] / one.plain_seconds, 2) for one in steps if part in one.parts] == said


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
    assert "clipping alone was measured on a card" in said
    assert "sums go by collectives of the cards with DISCREET_COLLECTIVES=1 (not run on several yet)" in said
    assert run(["plan", "mnist", "--no-probe", "--processes", "8", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["on_cards"]
    assert facts["step_seconds"]["slow"] >= facts["step_seconds"]["fast"] > 0
    assert min(facts["over_plain"].values()) > 1
    for name, ratio in facts["over_plain"].items():
        assert facts["over_plain_by_messages"][name] > ratio
