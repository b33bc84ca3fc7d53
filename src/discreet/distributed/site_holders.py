"""Who holds which site: every one is held by one process, or nothing begins."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from discreet.core.errors import InputError
from discreet.data.private.augmented import Augmented
from discreet.data.private.private import PrivateData
from discreet.data.private.sites import Sites
from discreet.distributed.ranks import Ranks

_PURPOSE = "the sites of the data"


def sites_of(data: object) -> Sites | None:
    """The sites at which data lies, as it was given; None if it does not lie at sites."""
    if isinstance(data, Augmented):
        return sites_of(data.data)
    if isinstance(data, PrivateData) and data.sites is not None:
        raise InputError("data at sites must be given as it is: Sites({number of the site: rows}, of=...)")
    return data if isinstance(data, Sites) else None


def held_once(ranks: Ranks, data: object, lanes: int | None) -> int | None:
    """At how many sites the data lies, None if it does not. `InputError` in all processes unless every site is held by
    exactly one of them. `lanes`: what was asked for, which sites do not leave open."""

    def own() -> list[Any] | None:
        sites = sites_of(data)
        if sites is not None and lanes is not None:
            raise InputError("data at sites has one lane for each site; leave lanes out")
        return None if sites is None else [sites.checked(), int(sites.of)]  # NumPy's numbers do not travel

    told = ranks.all_facts(_PURPOSE, ranks.together(_PURPOSE, own))
    fault = None if told == [None] * ranks.size else _fault(told)
    if fault is not None:
        raise InputError(f"{fault}. Nothing was charged")
    return None if told[0] is None else int(told[0][1])


def _fault(told: list[list[Any] | None]) -> str | None:
    """The first mistake in what each process, by rank, says of its sites; None if there is none."""
    without = next((rank for rank, one in enumerate(told) if one is None), None)
    if without is not None:
        return f"process {without} gives data that does not lie at sites, and another does; give Sites in all of them"
    given = [one for one in told if one is not None]
    counts = [one[1] for one in given]
    if len(set(counts)) > 1:
        return f"the processes count different numbers of sites ({', '.join(map(str, counts))})"
    idle = next((rank for rank, one in enumerate(given) if not one[0]), None)
    if idle is not None:
        return f"process {idle} holds no site; start at most as many processes as there are sites, {counts[0]}"
    holders = sorted((number, rank) for rank, one in enumerate(given) for number in one[0])
    for number, several in groupby(holders, key=lambda one: one[0]):
        ranks = [str(rank) for _, rank in several]
        if len(ranks) > 1:
            return f"site {number} is held by processes {' and '.join(ranks)}; let one process hold it"
    held = {number for number, _ in holders}
    missing = next((number for number in range(counts[0]) if number not in held), None)
    return None if missing is None else f"site {missing} is held by no process; give its rows in one of them"
