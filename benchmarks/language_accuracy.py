"""Private fine-tuning of the models of `language_pretraining.py` on the private half of IMDb's reviews.

python benchmarks/language_accuracy.py --data DIR --models models --out results.jsonl [--seeds 5]    (resumable)
python benchmarks/language_accuracy.py --out results.jsonl --show                         (the tables of the page)

Sentiment by the masked model, and the perplexity of the causal one. What is measured is measured on reviews of the test
part, declared public; none of them is also in the training part. `words` is the recipe `imdb` on the same private half.
`head` trains the classifier alone, on what the frozen model makes of a review. Settings were chosen on the public half
(`language_tuning.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from language_halves import HALVES, Part, features, rows, words
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

import discreet
from discreet.language import TASKS, TransformersModel
from discreet.methods import DPAdamBC
from discreet.plan import mean_noise
from discreet.recipes import load_recipe

DELTA, RANK = 1e-5, 8
EPSILONS = (3.0, 8.0, 1.0)


@dataclass(frozen=True)
class Way:
    """How a model is trained: rows of a step, steps, learning rate, clip norm. `head_rate`: the learning rate of a
    classifier, which is new and begins at zero; None for the same. `body_clip`: the clip norm of the weights below the
    classifier, for each of their groups; None if all are clipped together. `optimizer`: "adam", "adam-bc" (it takes the
    variance of the noise off its second moment, with a floor of a tenth of it) or "sgd" (with momentum)."""

    batch: int
    steps: int
    rate: float
    clip: float = 0.1
    head_rate: float | None = None
    body_clip: float | None = None
    optimizer: str = "adam"


WAYS = {
    ("sentiment", "head"): Way(1024, 100, 0.1, 1.0),
    ("sentiment", "lora"): Way(128, 64, 5e-4, 1.0, 0.1, 0.5),
    ("sentiment", "full"): Way(128, 64, 5e-5, 1.0, 0.1, 0.35),
    ("perplexity", "full"): Way(2048, 8, 1e-3),
    ("perplexity", "lora"): Way(1024, 16, 6e-3),
}
PLAIN = {"sentiment": Way(64, 128, 5e-4, head_rate=1e-2), "perplexity": Way(64, 125, 5e-4)}
"""Without privacy, about as many rows in all."""


@dataclass(frozen=True)
class Case:
    """A run. `epsilon`: None without privacy. `how`: "full", "lora", "head", "words", "none" (the model as it was)."""

    task: str
    how: str
    epsilon: float | None
    seed: int


def cases(seeds: int) -> Iterator[Case]:
    """Those of the page, all of one seed before the next."""
    for seed in range(seeds):
        yield from (Case("sentiment", how, epsilon, seed) for epsilon in EPSILONS for how in ("lora", "full"))
        yield from (Case("sentiment", how, epsilon, seed) for epsilon in EPSILONS for how in ("head", "words"))
        yield Case("sentiment", "full", None, seed)
        yield Case("perplexity", "none", None, seed)
        yield Case("perplexity", "full", None, seed)
        yield from (Case("perplexity", how, epsilon, seed) for epsilon in EPSILONS for how in ("lora", "full"))


def build(case: Case, models: Path) -> tuple[nn.Module, nn.Module]:
    """The model, with its new weights by the seed, and the loss of a row. A new classifier begins at zero, so its first
    step is not against weights that mean nothing."""
    torch.manual_seed(case.seed)
    name = "classification" if case.task == "sentiment" else "causal-lm"
    if case.task == "sentiment":
        inner = AutoModelForSequenceClassification.from_pretrained(models / "masked")
        nn.init.zeros_(inner.classifier.weight)
    else:
        inner = AutoModelForCausalLM.from_pretrained(models / "causal")
    if case.how == "head":
        return inner.classifier, TASKS[name].loss()
    if case.how == "lora":
        wanted = {"r": RANK, "lora_alpha": 2 * RANK, "target_modules": "all-linear"}
        inner = get_peft_model(inner, LoraConfig(task_type=TASKS[name].peft, **wanted))
    return TransformersModel(inner, name), TASKS[name].loss()


def optimizer_of(model: nn.Module, way: Way, decay: float, std: float = 0.0) -> torch.optim.Optimizer:
    """The optimizer, with a learning rate of its own for the classifier. `std`: of the noise in the first mean."""
    kinds: dict[bool, list[Tensor]] = {False: [], True: []}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            kinds[way.head_rate is not None and "classifier" in name].append(weight)
    rates = {False: way.rate, True: way.head_rate}
    groups = [{"params": found, "lr": rates[kind]} for kind, found in kinds.items() if found]
    if way.optimizer == "adam-bc":
        return DPAdamBC(groups, lr=way.rate, floor=0.1 * std**2)
    if way.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=way.rate, momentum=0.9)
    return torch.optim.AdamW(groups, weight_decay=decay)


def clipping(case: Case, way: Way) -> dict[str, Any]:
    """One clip norm, or groups: gradients of the weights below are far longer than that of the classifier, which would
    be left with a twentieth of a common norm, or less."""
    if way.body_clip is None:
        return {"clip_norm": way.clip}
    below = ("*lora_*",) if case.how == "lora" else ("inner.model.*", "inner.head.*")
    return {"clipping": {"groups": {"*classifier*": way.clip, **dict.fromkeys(below, way.body_clip)}}}


def private_run(case: Case, way: Way, given: tuple[Tensor, Tensor], models: Path, folder: Path) -> nn.Module:
    """Train under a plan; noise is fresh in every run, whatever the seed."""
    model, loss = build(case, models)
    size = {"population": len(given[1]), "batch": way.batch, "steps": way.steps}
    plan = discreet.Plan.poisson(**size, **clipping(case, way), delta=DELTA).calibrate(epsilon=case.epsilon)
    optimizer = optimizer_of(model, way, 0.0, mean_noise(plan, step=0) if way.optimizer == "adam-bc" else 0.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: slope(step, way.steps))
    options = {"engine": "bookkeeping", "run": folder / "run", "scheduler": scheduler}
    done = discreet.Training(plan, model, loss, optimizer, given, **options).run(progress=False)
    assert done.plan.guarantee().epsilon <= (case.epsilon or 0)
    return done.model


def slope(step: int, steps: int) -> float:
    """The learning rate over the first one: up in a tenth of the steps, then down in a line."""
    return min((step + 1) / max(1, steps // 10), 1 - step / (steps + 1))


def plain_run(case: Case, way: Way, given: tuple[Tensor, Tensor], models: Path) -> nn.Module:
    """Train without privacy."""
    model, loss = build(case, models)
    optimizer = optimizer_of(model, way, 0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: slope(step, way.steps))
    draws = np.random.default_rng(case.seed)
    for _ in range(way.steps):
        chosen = torch.from_numpy(draws.choice(len(given[1]), way.batch, replace=False))
        loss(model.train()(given[0][chosen]), given[1][chosen]).backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    return model


def words_run(case: Case, data: Path, folder: Path) -> float:
    """Accuracy of the recipe `imdb` on the private half at this epsilon, on the same public test rows."""
    recipe = load_recipe("imdb", [f"epsilon={case.epsilon}", "population=12500"])
    (inputs, labels), (test, truth) = words(data)
    model = recipe.build_model()
    options = {"run": folder / "run", "averaging": recipe.averaging}
    done = discreet.Training(
        recipe.plan(), model, nn.CrossEntropyLoss(), recipe.build_optimizer(model), (inputs, labels), **options
    ).run(progress=False)
    with torch.no_grad():
        return float((done.model(test).argmax(1) == truth).float().mean())


def measured(case: Case, model: nn.Module, test: tuple[Tensor, Tensor]) -> float:
    """Accuracy, or perplexity per token, on rows declared public."""
    inputs, targets = test
    total, count = 0.0, 0
    model.eval()
    with torch.no_grad():
        for start in range(0, len(targets), 200):
            scores, truth = model(inputs[start : start + 200]), targets[start : start + 200]
            if case.task == "sentiment":
                total, count = total + float((scores.argmax(1) == truth).sum()), count + len(truth)
            else:
                total += float(nn.functional.cross_entropy(scores, truth, reduction="sum"))
                count += int((truth != -100).sum())
    return total / count if case.task == "sentiment" else math.exp(total / count)


def run(case: Case, data: Path, models: Path) -> dict[str, Any]:
    """A run, and what it reached."""
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        if case.how == "words":
            found = words_run(case, data, Path(folder))
        else:
            found = reached(case, data, models, Path(folder))
    return asdict(case) | {"found": round(found, 5), "CPU seconds": round(time.process_time() - begun)}


def reached(
    case: Case, data: Path, models: Path, folder: Path, way: Way | None = None, parts: tuple[Part, Part] = HALVES
) -> float:
    """What a model of transformers reaches that was trained on the first part, on the second."""
    if case.how == "head":
        given, test = (features(data, models, part) for part in parts)
    else:
        given, test = (rows(case.task, data, models, part) for part in parts)
    if case.how == "none":
        return measured(case, build(case, models)[0], test)
    if case.epsilon is None:
        return measured(case, plain_run(case, way or PLAIN[case.task], given, models), test)
    return measured(case, private_run(case, way or WAYS[case.task, case.how], given, models, folder), test)


def show(out: Path) -> None:
    """The tables of the page."""
    found = [json.loads(line) for line in out.read_text().splitlines()]
    for task, form in (("sentiment", lambda one: f"{100 * one:.1f} %"), ("perplexity", lambda one: f"{one:.1f}")):
        kinds = dict.fromkeys((one["how"], one["epsilon"]) for one in found if one["task"] == task)
        print(f"\n| {task} | epsilon | mean | std. dev. | runs |\n|---|---|---|---|---|")
        for how, epsilon in sorted(kinds, key=lambda kind: (kind[0], kind[1] or math.inf)):
            values = [
                one["found"] for one in found if (one["task"], one["how"], one["epsilon"]) == (task, how, epsilon)
            ]
            print(f"| {how} | {epsilon or 'not private'} | {line(values, form)} |")


def line(values: list[float], form: Callable[[float], str]) -> str:
    """Mean, standard deviation and number of runs as cells."""
    spread = form(statistics.stdev(values)) if len(values) > 1 else "-"
    return f"{form(statistics.mean(values))} | {spread} | {len(values)}"


def main() -> None:
    """Run the cases that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="what a run must be, such as: sentiment lora 3.0")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if options.show:
        return show(options.out)
    torch.set_num_threads(1)
    done = options.out.read_text().splitlines() if options.out.exists() else []
    known = {Case(one["task"], one["how"], one["epsilon"], one["seed"]) for one in map(json.loads, done)}
    for case in cases(options.seeds):
        if case not in known and set(options.only) <= {case.task, case.how, str(case.epsilon)}:
            with options.out.open("a") as file:
                file.write(json.dumps(run(case, options.data, options.models)) + "\n")
            print(options.out.read_text().splitlines()[-1], flush=True)
    return None


if __name__ == "__main__":
    main()
