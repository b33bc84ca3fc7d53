"""Runs on tiny data whose weights are shared out among processes, for `test_sharded_runs`.

torchrun --nproc-per-node 2 sharded_runs.py FOLDER CASE...     prints {case: digest of all weights after every step}
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import blobs, tiny_plan, tiny_training
from sharded_models import (
    WIDTH,
    WORDS,
    AsItCame,
    Gain,
    Gate,
    OfQueries,
    OneByOne,
    PickyLoss,
    Placed,
    Scale,
    Vit,
    gpt,
    seeded,
)
from shared_runs import KNOWN
from torch import Tensor, nn

from discreet.core.release import Release
from discreet.plan import Plan
from discreet.training import EngineOptions, PublicData, Training
from discreet.training import step as step_module
from discreet.training.preflight.engine_check import CHECKED

LANES, ROWS = 6, 40

Case = Callable[[Path, dict[str, Any]], Training]


def texts() -> tuple[Tensor, Tensor]:
    words = torch.randint(WORDS, (ROWS, 6), generator=torch.Generator().manual_seed(1))
    return words, words[:, 0] % 3


def plan(**changes: Any) -> Plan:
    given = {"population": ROWS, "batch": 12, "steps": 4, "clip_norm": 0.5, "delta": 1e-4, "noise_multiplier": 1.5}
    return Plan.poisson(**{**given, **changes})


def training(folder: Path, shared: dict[str, Any], **changes: Any) -> Training:
    """A tiny training in chunks of three rows; `shared`: how processes share it."""
    make = changes.pop("optimizer", lambda held: torch.optim.Adam(held, lr=0.01))
    model = changes.pop("model", None) or gpt()
    held = [one for one in model.parameters() if one.requires_grad]
    given = {"model": model, "optimizer": make(held), "plan": plan(), "data": texts(), "engine": "bookkeeping"}
    return tiny_training(folder, **(given | {"physical_batch": 3} | shared | changes))


def adapted(folder: Path, shared: dict[str, Any], **changes: Any) -> Training:
    """LoRA of peft on a frozen base."""
    from peft import LoraConfig, get_peft_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model = get_peft_model(gpt(), LoraConfig(r=4, target_modules=["qkv", "out", "up", "down"]))  # type: ignore[arg-type]
    return training(folder, shared, model=model, **changes)


def looked_at(folder: Path, shared: dict[str, Any]) -> Training:
    """LoRA, with metrics on public rows after every step: all weights are put together for them."""
    return adapted(folder, shared, public=PublicData(test=texts()))


def picky(folder: Path, shared: dict[str, Any]) -> Training:
    """One row fails, but not before the run."""
    PickyLoss.largest, model = float("inf"), gpt()
    made = training(folder, shared, model=model, criterion=PickyLoss())
    with torch.no_grad():
        outputs = model(texts()[0].to(next(model.parameters()).device))
    PickyLoss.largest = float(outputs.abs().amax(1).topk(2).values.mean())
    return made


def unruled(folder: Path, shared: dict[str, Any]) -> Training:
    model = gpt()
    model.norm = nn.Sequential(model.norm, Scale(WIDTH))  # type: ignore[assignment]
    return training(folder, shared, model=model)


def gains(folder: Path, shared: dict[str, Any]) -> Training:
    """Two, of the same shape, in a model that draws random numbers."""
    model = gpt(dropout=0.3)
    model.norm = nn.Sequential(Gain(WIDTH), model.norm, Gain(WIDTH))  # type: ignore[assignment]
    return training(folder, shared, model=model)


def unused(folder: Path, shared: dict[str, Any]) -> Training:
    """Entries of a list that return the tensor that they were given, as it was or changed."""
    model = gpt()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model.blocks.extend([AsItCame(WIDTH), Gate(WIDTH), AsItCame(WIDTH)])
    return training(folder, shared, model=model)


def with_(**changes: Any) -> Case:
    return lambda folder, shared: training(folder, shared, **changes)


def users(folder: Path, shared: dict[str, Any], **changes: Any) -> Training:
    """Ten users with four texts each, of which a step takes two."""
    given = plan(population=10, batch=4, unit="user", rows_per_unit=2)
    return training(folder, shared, plan=given, units=np.arange(ROWS) % 10, **changes)


def words_of_users(folder: Path, shared: dict[str, Any]) -> Training:
    """A layer is given their words one by one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        model, layer = gpt(), OneByOne(WIDTH)
    model.norm = nn.Sequential(layer, model.norm)  # type: ignore[assignment]
    return users(folder, shared, model=model)


def long_rows(folder: Path, shared: dict[str, Any]) -> Training:
    """Some rows hold numbers so long that they are taken one by one."""
    inputs, targets = blobs()
    inputs[::3] *= 2.0**60
    return tiny_training(folder, **({"data": (inputs, targets), "engine": "bookkeeping", "physical_batch": 5} | shared))


def sgd(held: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(held, lr=0.1, momentum=0.9, weight_decay=0.01)


CASES: dict[str, Case] = {
    "bookkeeping, Adam": with_(),
    "ghost, Adam": with_(engine="ghost"),
    "bookkeeping, SGD": with_(optimizer=sgd),
    "each layer by itself": with_(plan=plan(clip_norm=None, clipping={"kind": "per_layer", "norm": 0.5})),
    "dropout": lambda folder, shared: training(folder, shared, model=gpt(dropout=0.3)),
    "batches smaller than the number of lanes": with_(plan=plan(batch=2, steps=6)),
    "LoRA": adapted,
    "LoRA, public rows": looked_at,
    "a layer without a rule": unruled,
    "layers that scale": gains,
    "rows that fail": picky,
    "exact noise": with_(noise="exact"),
    "users": users,
    "autocast": with_(engine=EngineOptions("bookkeeping", autocast=torch.bfloat16)),
    "entries that return what they were given": unused,
    "bfloat16": lambda folder, shared: training(folder, shared, model=gpt().to(torch.bfloat16)),
    "learned queries": lambda folder, shared: training(folder, shared, model=seeded(OfQueries)),
    "places that all texts have in common": lambda folder, shared: training(folder, shared, model=seeded(Placed)),
    "a vision transformer": lambda folder, shared: training(folder, shared, model=seeded(Vit)),
    "a checkpointed one": lambda folder, shared: training(folder, shared, model=seeded(lambda: Vit(checkpointed=True))),
    "a linear model": lambda folder, shared: tiny_training(
        folder, **({"plan": tiny_plan(), "engine": "bookkeeping", "physical_batch": 5} | shared)
    ),
    "words of users, one by one": words_of_users,
}

ROUNDED_OTHERWISE: dict[str, Case] = {"long rows": long_rows}
"""Cases in which some rows are computed by another engine than without shards."""


def digest_of(case: Case, folder: Path, shared: dict[str, Any]) -> tuple[str, Training]:
    """A digest of all weights after every step."""
    with CHECKED.in_(KNOWN):
        made, found, steps = case(folder, shared), hashlib.sha256(), [0]
    real = step_module.apply

    def noted(release: Release, parameters: dict[str, nn.Parameter], *rest: Any) -> None:
        real(release, parameters, *rest)
        steps[0] += 1
        held: dict[str, Tensor] = {name: one.detach() for name, one in parameters.items()}
        if made.team.lockstep is not None:
            held = made.team.lockstep.shards.whole(held)
        for name in sorted(held):
            found.update(bytes_of(held[name]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "apply", noted)
        trained = made.run(evaluate_every=1)
    found.update(json.dumps([[one.step, dict(one.metrics)] for one in trained.evaluations]).encode())
    for name, one in sorted(trained.model.state_dict().items()):
        found.update(name.encode() + bytes_of(one))
    assert steps[0] > 0
    return found.hexdigest()[:16], made


def bytes_of(value: Tensor) -> bytes:
    """The bits of a tensor of any type."""
    return value.contiguous().reshape(-1).view(torch.uint8).cpu().numpy().tobytes()


def main(folder: Path, names: list[str]) -> None:
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    found = {}
    for number, name in enumerate(names or CASES):
        found[name], made = digest_of(
            (CASES | ROUNDED_OTHERWISE)[name], folder / str(number), {"shard": "fully", "lanes": LANES}
        )
    if made.team.first:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
