"""Law of every rule, engine and way to clip: a row moves the sum of its chunk by what it adds alone, and nothing else.

So no row decides how others are measured, or whether they count. Other rows lie where such decisions are taken: at the
ends of single precision, and with gradients that are the same at every place. The neighbour is anything: no number, no
gradient, a longest one, several rows of one unit.
"""

from __future__ import annotations

import pytest
from clips import CLIPS
from rule_modules import MODULES, Draws, summed

from discreet.clipping.rules.base import RULES

BITS = {"attention, wide": 18}
"""How many bits of a clipped gradient do not depend on the other rows, where it is fewer than 20 on some processors. A
run measures them (see `training.preflight`)."""

KINDS = ["no number", "one infinite", "no gradient", "any", "long", "as another"]


def test_every_rule_is_among_the_modules() -> None:
    made = [build() for build, _ in MODULES.values()]
    met = {RULES[type(part)] for one in made for part in one.modules() if type(part) in RULES}
    assert met == {rule for rule in RULES.values() if rule.__module__.startswith("discreet.")}  # tests register others


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "vmap"])
@pytest.mark.parametrize("name", MODULES)
def test_a_row_moves_the_sum_of_its_chunk_by_what_it_adds_alone(name: str, engine: str) -> None:
    for number in range(4):
        draws = Draws(name, number)
        most = draws.chance.choice([1, 4])  # rows of a unit
        clip = CLIPS[draws.chance.choice([*CLIPS])](draws.model, 1.0)
        chunk = [draws.unit("any", most) for _ in range(4)]
        without = summed(engine, draws.model, clip, most, chunk)
        slack = 2 * 2.0 ** -BITS.get(name, 20) * clip.spread * (len(chunk) + 1)
        for kind in KINDS:
            new = chunk[0] if kind == "as another" else draws.unit(kind, most)
            own = summed(engine, draws.model, clip, most, [new])
            assert float(own.norm()) <= clip.sensitivity + slack
            together = summed(engine, draws.model, clip, most, [*chunk, new])
            assert float((together - without - own).norm()) <= slack, (number, kind, most, clip)
