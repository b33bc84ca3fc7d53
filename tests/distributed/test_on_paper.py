"""Estimates of steps on graphics cards, against figures that were worked out by hand from the same assumptions."""

import json
from pathlib import Path

import pytest

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.distributed.on_paper import CARDS, NETWORKS, card_named, collective, replicated_step


@pytest.mark.parametrize(
    ("processes", "network", "plain", "by_collectives", "ratio"),
    [(8, "fast", 0.050, 0.080, 1.60), (128, "fast", 0.050, 0.078, 1.56), (8, "slow", 0.073, 0.164, 2.24)],
)
def test_a_hundred_million_weights(
    processes: int, network: str, plain: float, by_collectives: float, ratio: float
) -> None:
    """Four passes of 8,192 tokens a card at 6 x 10^8 operations a token and 400 Tflop/s: 0.049 s; sums of 800 MB and
    means of 400 MB, the noise of 10^8 / W numbers on 12 cores. (To two or three digits.)"""
    operations = 4 * 8192 * 6e8 * processes
    found = replicated_step(operations, 1e8, processes, CARDS["H100"], NETWORKS[network])
    assert found.plain_seconds == pytest.approx(plain, abs=0.006)
    assert found.by_collectives == pytest.approx(by_collectives, abs=0.006)
    assert found.by_collectives / found.plain_seconds == pytest.approx(ratio, abs=0.02)


@pytest.mark.parametrize(("processes", "private"), [(1, 0.116), (8, 0.798), (128, 0.940), (1024, 1.304)])
def test_sums_go_by_gloo_to_one_process_after_the_other(processes: int, private: float) -> None:
    """Clipped passes of 0.074 s, or for one process the noise of 10^8 numbers on 12 cores, 0.094 s; 1.2 GB to the host
    and back, 0.022 s; sums and means of 1.2 GB less a W-th at 1.5 GB/s; four times W - 1 messages of 0.1 ms."""
    found = replicated_step(4 * 8192 * 6e8 * processes, 1e8, processes, CARDS["H100"], NETWORKS["fast"])
    assert found.private_seconds == pytest.approx(private, abs=0.001)


@pytest.mark.parametrize(
    ("passes", "ratios", "by_collectives"),
    [
        (4, (16.0, 18.8, 26.1), (1.56, 1.60)),
        (40, (3.0, 3.3, 4.0), (1.51, 1.51)),
        (400, (1.65, 1.68, 1.75), (1.50, 1.50)),
    ],
)
def test_the_table_of_the_page(passes: int, ratios: tuple[float, ...], by_collectives: tuple[float, float]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
    (line,) = [one for one in page.splitlines() if one.startswith(f"| {passes} |")]
    assert [float(one) for one in line.split("|")[2:5]] == list(ratios)
    for cards, ratio in zip((8, 128, 1024), ratios, strict=True):
        found = replicated_step(passes * 8192 * 6e8 * cards, 1e8, cards, CARDS["H100"], NETWORKS["fast"])
        assert found.ratio == pytest.approx(ratio, abs=0.05 if ratio > 2 else 0.005)
        assert by_collectives[0] - 0.005 <= found.by_collectives / found.plain_seconds <= by_collectives[1] + 0.005


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
    assert "sums go from host to host by gloo, to one process after the other" in said
    assert run(["plan", "mnist", "--no-probe", "--processes", "8", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["on_cards"]
    assert facts["step_seconds"]["slow"] == facts["step_seconds"]["fast"] > 0  # a connection is slower than both
    assert facts["over_plain"]["slow"] < facts["over_plain"]["fast"]
    assert min(facts["over_plain"].values()) > 1
