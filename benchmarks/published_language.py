"""E2E, SST-2 and MNLI privately, on files and a model of yours, beside what is published. Needs discreet[hf,bleu].

python benchmarks/published_language.py e2e --data DIR --model GPT2 --epsilon 3 --out e2e-private
python benchmarks/published_language.py sst2 --data DIR --model ROBERTA --lora 8 --out sst2-private

| task | files in DIR, as they are distributed | measured on rows declared public |
|---|---|---|
| e2e | trainset.csv, testset_w_refs.csv (columns mr, ref) | BLEU of sacrebleu, all references of a meaning |
| sst2 | train.tsv, dev.tsv (sentence, label) | accuracy |
| mnli | train.tsv, dev_matched.tsv (sentence1, sentence2, gold_label) | accuracy |

Batch, epochs, learning rate, clip norm and length are those of the code of Li et al. 2022; noise is calibrated to
epsilon at delta. They tell classes by a prompt, and here a head does; LoRA has a learning rate of its own, not theirs.
The folder that is written has adapters or weights with their proof.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import discreet
from discreet.core.errors import InputError
from discreet.core.imports.extras import extra
from discreet.integrations.adapter_publishing import publish_adapters
from discreet.jobs.language.base_folder import load_for
from discreet.language import TASKS, TransformersModel, TransformersRows
from discreet.publication import publish

IGNORED, AT_ONCE = -100, 32


@dataclass(frozen=True)
class Recipe:
    """`columns`: those that a model reads, and the one that it gives. `published`: (epsilon, figure, whose)."""

    task: str
    files: tuple[str, str]
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    batch: int
    epochs: int
    rate: float
    lora_rate: float
    delta: float
    length: int
    metric: str
    published: tuple[tuple[float, float, str], ...]


LI, ROBERTA = "Li et al. 2022, GPT-2, all weights", "reported with RoBERTa-large, all weights"
RECIPES = {
    "e2e": Recipe(
        "causal-lm", ("trainset.csv", "testset_w_refs.csv"), ("mr", "ref"), (), 1024, 10, 2e-3, 2e-3, 8e-6, 100,
        "BLEU", ((3.0, 61.5, LI), (8.0, 63.2, LI)),
    ),
    "sst2": Recipe(
        "classification", ("train.tsv", "dev.tsv"), ("sentence", "label"), ("0", "1"), 1000, 3, 5e-4, 2e-3, 7e-6, 256,
        "accuracy", ((3.0, 93.9, ROBERTA),),
    ),
    "mnli": Recipe(
        "classification", ("train.tsv", "dev_matched.tsv"), ("sentence1", "sentence2", "gold_label"),
        ("contradiction", "entailment", "neutral"), 6000, 18, 5e-4, 2e-3, 1e-6, 256,
        "accuracy", ((3.0, 86.3, ROBERTA),),
    ),
}  # fmt: skip


def read(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The named columns of a .csv or .tsv file. Cells of .tsv files have no quotes: a quote is a character."""
    if not path.is_file():
        raise InputError(f"{path} is missing; --data names the folder that has it")
    way: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, **way)
        missing = [name for name in columns if name not in (rows.fieldnames or ())]
        if missing:
            raise InputError(f"{path.name} has no column {missing[0]!r}")
        return [{name: row[name] or "" for name in columns} for row in rows]


def both(recipe: Recipe, data: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The private rows, and those declared public. The same file under two names is refused."""
    private, public = (data / name for name in recipe.files)
    found = read(private, recipe.columns), read(public, recipe.columns)
    if len({hashlib.sha256(path.read_bytes()).digest() for path in (private, public)}) == 1:
        raise InputError(f"{public} is a copy of {private}, which is private; give a file that may be public")
    return found


def rows_of(recipe: Recipe, rows: Sequence[Mapping[str, str]], tokenizer: Any, padding: int) -> TransformersRows:
    """Rows of tokens. Of a text that is written, only the tokens after its meaning are predicted."""
    *read_columns, target = recipe.columns
    made: list[dict[str, Any]] = []
    for row in rows:
        given = [row[name] for name in read_columns]
        if recipe.classes:
            if row[target] not in recipe.classes:
                continue  # rows of MNLI on which no two people agreed
            found = tokenizer(*given, truncation=True, max_length=recipe.length)["input_ids"]
            made.append({"input_ids": found, "labels": recipe.classes.index(row[target])})
        else:
            prompt = prompt_of(given[0], tokenizer)
            text = [*tokenizer(row[target], add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
            tokens = [*prompt, *text][: recipe.length]
            made.append({"input_ids": tokens, "labels": ([IGNORED] * len(prompt) + text)[: recipe.length]})
    for one in made:
        one["attention_mask"] = [1] * len(one["input_ids"])
    return TransformersRows(made, recipe.task, length=recipe.length, padding=padding)


def prompt_of(meaning: str, tokenizer: Any) -> list[int]:
    """The tokens of what a text shall say, up to where it begins."""
    found: list[int] = tokenizer(f"{meaning} |", add_special_tokens=False)["input_ids"]
    return [*found, tokenizer.eos_token_id]


def accuracy(model: TransformersModel, tested: tuple[Tensor, Tensor]) -> float:
    """In percent, on rows declared public."""
    inputs, truth = tested
    with torch.no_grad():
        found = [model.eval()(inputs[at : at + AT_ONCE]).argmax(1) for at in range(0, len(inputs), AT_ONCE)]
    return 100 * float((torch.cat(found) == truth).float().mean())


def bleu(inner: Any, tokenizer: Any, rows: Sequence[Mapping[str, str]], length: int, beams: int) -> float:
    """BLEU of one text for each meaning, against all references that the public rows have for it."""
    sacrebleu = extra("sacrebleu", "bleu", "BLEU")
    wanted: dict[str, list[str]] = {}
    for row in rows:
        wanted.setdefault(row["mr"], []).append(row["ref"])
    written = [one_text(inner, tokenizer, meaning, length, beams) for meaning in wanted]
    most = max(map(len, wanted.values()))
    references = [[texts[place] if place < len(texts) else None for texts in wanted.values()] for place in range(most)]
    return float(sacrebleu.corpus_bleu(written, references, lowercase=True).score)


def one_text(inner: Any, tokenizer: Any, meaning: str, length: int, beams: int) -> str:
    """The text that a model writes for a meaning, by beam search."""
    prompt = torch.tensor([prompt_of(meaning, tokenizer)])
    ends = tokenizer.eos_token_id
    given = {"attention_mask": torch.ones_like(prompt), "pad_token_id": ends, "eos_token_id": ends}
    with torch.no_grad():
        made = inner.generate(input_ids=prompt, max_new_tokens=length, num_beams=beams, do_sample=False, **given)
    text: str = tokenizer.decode(made[0, prompt.shape[1] :], skip_special_tokens=True)
    return text.strip()


def run(
    name: str, data: Path, model: Path, out: Path, epsilon: float, lora: int | None, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Train, publish, measure. `changes`: `batch`, `epochs`, `rate` or `population` other than the recipe's."""
    recipe = RECIPES[name]
    private, public = both(recipe, data)
    tokenizer, inner = load_for(model, TASKS[recipe.task], recipe.classes, name)
    if lora is not None:
        wanted = {"r": lora, "lora_alpha": 2 * lora, "target_modules": "all-linear"}
        peft = extra("peft", "hf", "--lora")
        inner = peft.get_peft_model(inner, peft.LoraConfig(task_type=TASKS[recipe.task].peft, **wanted))
    rows, tested = (rows_of(recipe, one, tokenizer, inner.config.pad_token_id or 0) for one in (private, public))
    wrapped = TransformersModel(inner, recipe.task, rows.layout)
    population = changes.get("population") or len(rows)  # the sizes of these data sets are public
    batch, epochs = changes.get("batch") or recipe.batch, changes.get("epochs") or recipe.epochs
    size = {"population": population, "batch": batch, "steps": max(1, round(epochs * population / batch))}
    plan = discreet.Plan.poisson(**size, clip_norm=0.1, delta=recipe.delta).calibrate(epsilon=epsilon)
    rate = changes.get("rate") or (recipe.rate if lora is None else recipe.lora_rate)
    trained_ones = [one for one in wrapped.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained_ones, lr=rate, weight_decay=0.0, eps=1e-8)
    falls = bool(recipe.classes)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / plan.steps if falls else 1.0)
    folder = out.with_name(out.name + ".run")
    training = discreet.Training(
        plan, wrapped, TASKS[recipe.task].loss(), optimizer, rows, run=folder, scheduler=scheduler
    )
    trained = training.run(progress=False)
    guarantee = publish(trained, out) if lora is None else publish_adapters(trained, out, base=model.name)
    done = trained.model.eval()
    figure = accuracy(done, tested.tensors()) if recipe.classes else -1.0
    if not recipe.classes:
        figure = bleu(done.inner, tokenizer, public, recipe.length, changes.get("beams") or 5)
    return {
        "task": name,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        recipe.metric: round(figure, 2),
        "public rows": len(public),
        "steps": plan.steps,
        "published": [{"epsilon": of, recipe.metric: value, "by": whose} for of, value, whose in recipe.published],
    }


def shown(found: Mapping[str, Any]) -> str:
    """The result, with the published figures beside it."""
    metric = RECIPES[found["task"]].metric
    lines = [f"{found['task']}: {metric} {found[metric]:.1f} at certified epsilon {found['epsilon']:.4f}"]
    for one in found["published"]:
        lines.append(f"  published: {one[metric]:.1f} at epsilon {one['epsilon']:g} ({one['by']})")
    return "\n".join(lines)


def main() -> None:
    """One recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=RECIPES)
    for option in ("--data", "--model", "--out"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--lora", type=int, help="rank of adapters; without it all weights are trained")
    parser.add_argument("--json", action="store_true")
    for option in ("--population", "--batch", "--epochs", "--rate"):
        parser.add_argument(option, type=float)
    parser.add_argument("--beams", type=int)
    given = parser.parse_args()
    changes = {name: getattr(given, name) for name in ("population", "batch", "epochs", "rate", "beams")}
    found = run(given.name, given.data, given.model, given.out, given.epsilon, given.lora, changes)
    print(json.dumps(found) if given.json else shown(found))


if __name__ == "__main__":
    main()
