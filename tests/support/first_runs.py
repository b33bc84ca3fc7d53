"""Runs that answer queries before their first step, on tiny problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from problems import FEATURES, blobs, in_records, linear, tiny_plan
from torch import nn

from discreet import Training
from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.plan import AdaptivePlan, Plan
from discreet.queries import Account
from discreet.queries.transformers import PrivatePCA
from discreet.training import Trained, answered_first

NOISE = 4.0
COMPONENTS = Gaussian(NOISE, Query.COVARIANCE)


def first_plan(**changes: Any) -> Plan:
    """The tiny plan, after one query for components."""
    return tiny_plan(**({"before": [COMPONENTS]} | changes))


def components(account: Account, seed: int = 0) -> PrivatePCA:
    """Ask for as many components as there are columns."""
    return PrivatePCA(FEATURES, account=account, noise_multiplier=NOISE).fit(blobs(seed=seed)[0].numpy())


def training_after(folder: Path, plan: Plan | AdaptivePlan, pca: PrivatePCA | None = None, **options: Any) -> Training:
    """The training that follows in the same run folder; on the components where they are given."""
    inputs, targets = blobs()
    if pca is not None:
        inputs = torch.from_numpy(pca.transform(inputs.numpy())).float()
    model = linear()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    given = {"run_dir": folder / "run", "resume": True} | options
    return Training(plan, model, nn.CrossEntropyLoss(), sgd, (inputs, targets), **in_records(given))


def first_run(folder: Path, plan: Plan | AdaptivePlan, **options: Any) -> Trained:
    """Components, and the steps on them, as one run."""
    with answered_first(plan, linear(), folder / "run") as account:
        pca = components(account)
    return training_after(folder, plan, pca, **options).run()
