"""A sample of benchmarks/certificate_mutations.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch


def test_no_random_change_of_a_field_is_accepted_with_a_claim_below_the_truth(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    path = Path(__file__).parents[2] / "benchmarks" / "certificate_mutations.py"
    spec = importlib.util.spec_from_file_location("certificate_mutations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["certificate_mutations"] = module
    spec.loader.exec_module(module)
    counts, wrong = module.run(12, tmp_path, seed=1)
    assert wrong == []
    assert counts["rejected by both"] > 6
    weaker = {"kind": "guarantee", "adjacency": "add_remove", "unit": "example", "delta": 1e-5, "epsilon": 2.0}
    assert module.weaker(weaker, weaker)  # the judge itself
    assert not module.weaker(weaker | {"epsilon": 1.9}, weaker)
    assert not module.weaker(weaker | {"unit": "user"}, weaker)
