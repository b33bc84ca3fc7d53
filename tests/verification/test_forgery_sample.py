"""A sample of benchmarks/forgeries.py, and the judge of all of them."""

from __future__ import annotations

import copy
import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
import torch
from forging import facts_of, put

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KINDS = ("poisson", "filter, queries", "groups clipping")


@pytest.fixture(scope="module")
def forgeries(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("forgeries", BENCHMARKS / "forgeries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["forgeries"] = module
    spec.loader.exec_module(module)
    module.folder = tmp_path_factory.mktemp("forgeries")
    module.kinds = dict.fromkeys(KINDS)
    module.originals = module.honest(module.folder, module.kinds)
    return module


def test_no_forgery_is_accepted_with_a_claim_below_the_truth(forgeries: ModuleType) -> None:
    found = list(forgeries.run(range(60), forgeries.folder, forgeries.kinds))
    assert [one for one in found if one["wrong"]] == []
    told = Counter(one["told"] for one in found)
    assert told["rejected by both"] > 35
    # What rejects them is not the schema alone: a forgery is told consistently.
    assert sum("certificate" not in one["by"] for one in found if one["told"] == "rejected by both") > 10


def test_the_judge_of_forgeries(forgeries: ModuleType) -> None:
    """It finds nothing in honest certificates, and what is false in each of these."""
    for kind, folder in forgeries.originals.items():
        facts = facts_of(folder)
        assert forgeries.judged(facts, kind) == ""
        for change, reason in (
            (put("claim", "epsilon", value=lambda old: 0.98 * old), "the truth is"),
            (put("claim", "delta", value=1e-6), "not about"),
            (put("plan", "sampling", "period", value=20), "unknown field"),
            (put("events", "of", 0, "count", value=lambda old: old + 1), "events"),
            (put("clipping", "sensitivity", value=0.5), "sensitivity"),
            (put("mechanism", "randomness", value="test"), "repeated"),
        ):
            forged = copy.deepcopy(facts)
            change(forged)
            assert reason in forgeries.judged(forged, kind), (kind, reason)


def test_believing_lasts_no_longer_than_it_should(forgeries: ModuleType) -> None:
    """The check of an epsilon that is too low fails, but for the first look."""
    facts = facts_of(forgeries.originals["poisson"])
    facts["claim"] |= {"epsilon": 0.5 * facts["claim"]["epsilon"], "lower": None}
    draw = forgeries.random.Random(1)
    made = forgeries.resealed(facts, draw)
    forgeries.write(forgeries.folder / "lower", forgeries.originals["poisson"], made, draw)
    with forgeries.believing(forgeries.reviewer):
        assert forgeries.accepted_by(forgeries.folder / "lower")[0] == {"discreet verify": True, "verify.py": True}
    said, why = forgeries.accepted_by(forgeries.folder / "lower")
    assert (said, why) == ({"discreet verify": False, "verify.py": False}, "epsilon")
