"""Writes what the format of certificates was on the day this ran: `python tests/golden/write.py`.

To be run again only if a format is meant to change, with an entry in the changelog under Privacy. With names of kinds
of runs (`write.py cyclic`), only these and events that are not there yet are added. `folders.tar.xz`
holds a published folder of every kind of run; `records.json` holds every kind of event, filter and odometer, and the
plans of the runs with their fingerprints.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import torch
from every_kind import KINDS, published

from discreet.accounting.adaptive import filters, odometers
from discreet.core.adjacency import Adjacency, Query, Unit
from discreet.core.events import (
    Allocation,
    BoundedRange,
    Compose,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Individual,
    Laplace,
    NoisyMax,
    Poisson,
    Repeat,
    Selection,
    SparseHistogram,
    TruncatedPoisson,
)
from discreet.core.events.event_json import to_json
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials

HERE = Path(__file__).resolve().parent
STEP = Gaussian(1.25)

EVENTS: tuple[Event, ...] = (
    *(Gaussian(0.7, query) for query in Query),
    *(Laplace(1 / 3, query) for query in Query),
    *(BoundedRange(0.1, query) for query in Query),
    *(NoisyMax(2.5, query) for query in Query),
    SparseHistogram(1.5, 12.0),
    Selection(Poisson(0.01, STEP), NegativeBinomialTrials(-0.5, 0.1)),
    Selection(STEP, PoissonTrials(7.0)),
    Poisson(0.004, STEP),
    TruncatedPoisson(0.1, 130, 1000, STEP),
    FixedSize(1000, 64, STEP),
    Epoch(Repeat(STEP, 10)),
    Allocation(10, 2, STEP),
    Individual(10, 2, STEP),
    Repeat(Poisson(1e-3, STEP), 10**12),
    Compose(()),
    Compose((STEP, Repeat(Compose((STEP, Laplace(2.0))), 3))),
)
"""At least one of every kind."""

FILTERS: tuple[filters.Filter, ...] = (
    filters.RdpOrderFilter(8.0, 1.5, 1e-6),
    filters.RdpCurveFilter((2.0, 8.0, 32.0), (0.1, 0.4, 1.9), 1e-6, Adjacency.ZERO_OUT),
    filters.ZcdpFilter(0.1, 1e-5, unit=Unit.USER),
    filters.GaussianFilter(0.3, 1e-5, Adjacency.REPLACE_ONE),
    filters.BasicFilter(3.0, 1e-5),
)

ODOMETERS: tuple[odometers.Odometer, ...] = (
    odometers.DoublingOdometer(1e-6),
    odometers.RenyiOdometer(1e-6, (2.0, 8.0, 32.0), Adjacency.ZERO_OUT),
    odometers.ZcdpOdometer(1e-5, 0.25, unit=Unit.USER),
    odometers.GaussianOdometer(1e-5, 4.0, 0.5, Adjacency.REPLACE_ONE),
)


def main(added: list[str]) -> None:
    """Write all anew, or keep what there is and add some kinds of runs."""
    logging.disable()
    torch.set_num_threads(1)
    there = json.loads((HERE / "records.json").read_text()) if added else {"events": [], "plans": {}}
    events, plans = there["events"], there["plans"]
    events += [one for one in map(to_json, EVENTS) if one not in events]
    files = _files() if added else {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in added or KINDS:
            folder = published(Path(scratch) / name.replace(" ", "_"), name)
            facts = json.loads((folder / "certificate.json").read_text())
            plans[name] = {"plan": facts["plan"], "fingerprint": facts["plan_fingerprint"]}
            files |= {f"{name}/{path.name}": path.read_bytes() for path in sorted(folder.iterdir())}
    with tarfile.open(HERE / "folders.tar.xz", "w:xz", preset=9) as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    records = {
        "events": events,
        "filters": [filters.as_dict(one) for one in FILTERS],
        "odometers": [odometers.as_dict(one) for one in ODOMETERS],
        "plans": plans,
    }
    (HERE / "records.json").write_text(json.dumps(records, indent=1) + "\n")


def _files() -> dict[str, bytes]:
    """The published files that are there, by path."""
    with tarfile.open(HERE / "folders.tar.xz") as archive:
        found = ((one.name, archive.extractfile(one)) for one in archive.getmembers())
        return {path: file.read() for path, file in found if file is not None}


if __name__ == "__main__":
    main(sys.argv[1:])
