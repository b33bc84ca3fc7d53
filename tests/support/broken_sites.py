"""Broken builds of runs whose data lies at several sites: draws, sums and units of sites.

One process holds all sites here, as an audit does; what is broken is what each of several would do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from broken_builds import broken, patched

from discreet.data.private.sites import HeldSites
from discreet.distributed.site_draws import SiteDraws
from discreet.randomness import TestStream
from discreet.sampling import PoissonSampler

SITES = 3


@broken("all sites draw from the same random bits", "draws", sites=SITES)
def sites_share_a_stream() -> Any:
    def batches(self: SiteDraws, sampler: Any, first: int) -> Any:
        seed = int(self._streams[0].substream("sampling", first).words(1)[0])  # type: ignore[arg-type]
        found = [sampler.batches(first, len(units), TestStream(seed)) for units in self._ranges.values()]
        starts = [units.start for units in self._ranges.values()]
        steps = zip(*found, strict=True)
        return tuple(np.concatenate([one + start for one, start in zip(step, starts, strict=True)]) for step in steps)

    return patched((SiteDraws, "batches", batches))


@broken("the rate is divided among the sites", "draws", sites=SITES)
def rate_shared_out() -> Any:
    real = SiteDraws.batches

    def batches(self: SiteDraws, sampler: Any, first: int) -> Any:
        rate = sampler.rate if sampler.rate == 1.0 else sampler.rate / SITES
        return real(self, PoissonSampler(rate), first)

    return patched((SiteDraws, "batches", batches))


@broken("one site is drawn, in turn, and the others rest", "draws", sites=SITES)
def sites_in_turn() -> Any:
    real = SiteDraws.batches

    def batches(self: SiteDraws, sampler: Any, first: int) -> Any:
        (drawn,) = real(self, PoissonSampler(min(1.0, sampler.rate * SITES)), first)
        units = list(self._ranges.values())[first % SITES]
        return (drawn[(drawn >= units.start) & (drawn < units.stop)],)

    return patched((SiteDraws, "batches", batches))


@broken("rows at sites are attributed to other users than theirs", "draws", sites=SITES, unit="user", rows_per_unit=2)
def rows_of_other_users() -> Any:
    real = HeldSites.grouped

    def grouped(self: HeldSites, identifiers: Any) -> Any:
        names = {number: [f"{number} {i // 2}" for i in range(len(whose))] for number, whose in identifiers.items()}
        return real(self, names)

    return patched((HeldSites, "grouped", grouped))
