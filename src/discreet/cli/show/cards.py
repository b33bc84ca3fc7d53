"""What the steps of a recipe would take on many graphics cards, on paper, for `discreet plan --processes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.cli.show import wall_time
from discreet.core import checks
from discreet.core.errors import InputError

if TYPE_CHECKING:
    from discreet.recipes import Recipe


def facts_of(recipe: Recipe, processes: int, card: str) -> dict[str, Any]:
    """Estimates for a step at the expected batch of the plan, over fast and slow networks. No row is read."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from discreet.clipping import private_parameters
    from discreet.distributed.on_paper import NETWORKS, card_named, replicated_step
    from discreet.jobs.random_example import example_of

    count, found = checks.count("processes", processes), example_of(recipe)
    if found is None:
        raise InputError("the recipe does not tell the shape of its data, so a step cannot be counted")
    (inputs, _), _ = found
    model, plan, known = recipe.build_model(), recipe.plan(), card_named(card)
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        model(inputs)
    operations = 3.0 * counted.get_total_flops() / len(inputs) * plan.expected_batch  # twice as many back as forward
    weights = sum(parameter.numel() for parameter in private_parameters(model).values())
    steps = {
        name: replicated_step(operations, weights, count, known, bandwidth) for name, bandwidth in NETWORKS.items()
    }
    return {
        "processes": count,
        "card": card,
        "weights": weights,
        "memory": steps["fast"].memory,
        "sent": steps["fast"].private_sent,
        "plain_sent": steps["fast"].plain_sent,
        "step_seconds": {name: one.private_seconds for name, one in steps.items()},
        "over_plain": {name: one.ratio for name, one in steps.items()},
        "over_plain_by_messages": {name: (one.by_messages or 0) / one.plain_seconds for name, one in steps.items()},
        "wall_seconds": {name: one.private_seconds * plan.charges for name, one in steps.items()},
    }


def lines(facts: dict[str, Any]) -> list[str]:
    """The same for people."""
    return [
        f"on paper, {facts['processes']} {facts['card']}, the model whole on each ({facts['weights']:.3g} weights, "
        f"{_bytes(facts['memory'])} of them and their sums); of it, clipping alone was measured on a card:",
        *(
            f"  {name} network: {facts['step_seconds'][name] * 1e3:.3g} ms a step, {facts['over_plain'][name]:.3g} of "
            f"plain training; {wall_time.in_words(facts['wall_seconds'][name])} in all"
            for name in facts["step_seconds"]
        ),
        "  sums go by collectives of the cards with DISCREET_COLLECTIVES=1 (not run on several yet); from host to "
        f"host, by gloo, it would be {_both(facts['over_plain_by_messages'])} of plain training",
        f"  a card sends {_bytes(facts['sent'])} a step (plain training: {_bytes(facts['plain_sent'])})",
    ]


def _both(ratios: dict[str, float]) -> str:
    return " or ".join(f"{one:.2f} ({name})" for name, one in ratios.items())


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"
