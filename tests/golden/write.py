"""Adds kinds of runs and events that are not there yet, as they are published today: `python tests/golden/write.py`.

What is there stays as it was first published. It may change only if a format is meant to change, with an entry in the
changelog under Privacy: delete it, and run this again. `folders.tar.xz` holds a published folder of every kind of
run; `records.json` holds every kind of event, filter and odometer, and the
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
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import torch
from every_kind import KINDS, published

from discreet.accounting.adaptive import filters, odometers
from discreet.core.adjacency import Adjacency, Query, Unit
from discreet.core.events import (
    Allocation,
    BoundedRange,
    Compose,
    CyclicPoisson,
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
    CyclicPoisson(4, 0.9, STEP),
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


FOLDERS, RECORDS = HERE / "folders.tar.xz", HERE / "records.json"


def joined(known: dict[str, Any], plans: dict[str, Any]) -> dict[str, Any]:
    """The content of records.json: what is known, and behind it what is new."""
    today = {
        "events": [to_json(event) for event in EVENTS],
        "filters": [filters.as_dict(one) for one in FILTERS],
        "odometers": [odometers.as_dict(one) for one in ODOMETERS],
    }
    lists = {kind: [*known[kind], *(one for one in found if one not in known[kind])] for kind, found in today.items()}
    return {**lists, "plans": known["plans"] | plans}


def publish_to(files: dict[str, bytes], name: str, scratch: Path) -> dict[str, Any]:
    """Publish a run of this kind, add its files to `files`, and return its plan with its fingerprint."""
    folder = published(scratch / name.replace(" ", "_"), name)
    files |= {f"{name}/{path.name}": path.read_bytes() for path in sorted(folder.iterdir())}
    facts = json.loads((folder / "certificate.json").read_text())
    return {"plan": facts["plan"], "fingerprint": facts["plan_fingerprint"]}


def main() -> None:
    logging.disable()
    torch.set_num_threads(1)
    files: dict[str, bytes] = {}
    known: dict[str, Any] = {"events": [], "filters": [], "odometers": [], "plans": {}}
    if RECORDS.exists():
        known = json.loads(RECORDS.read_text())
        with tarfile.open(FOLDERS) as archive:
            files = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as scratch:
        plans = {name: publish_to(files, name, Path(scratch)) for name in KINDS if name not in known["plans"]}
    with tarfile.open(FOLDERS, "w:xz", preset=9) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    RECORDS.write_text(json.dumps(joined(known, plans), indent=1) + "\n")


if __name__ == "__main__":
    main()
