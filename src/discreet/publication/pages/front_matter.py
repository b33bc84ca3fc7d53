"""The YAML block that a model card begins with, as Hugging Face reads it: library, task, tags, public metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml

from discreet.certificate.described import OfTexts
from discreet.certificate.model_spec import ModelSpec

_TASKS: Mapping[str, str] = {
    "digits": "image-classification",
    "mnist": "image-classification",
    "cifar10": "image-classification",
    "imdb": "text-classification",
    "adult": "tabular-classification",
    "cancer": "tabular-classification",
}
"""Tasks by the library's names of data sets."""


_LANGUAGE: Mapping[str, str] = {
    "causal-lm": "text-generation",
    "seq2seq": "text-generation",
    "masked-lm": "fill-mask",
    "token-classification": "token-classification",
    "classification": "text-classification",
    "regression": "text-classification",
    "multi-label": "text-classification",
    "image-classification": "image-classification",
}
"""Hugging Face's names of the tasks of `discreet.language`."""


def front_matter(spec: ModelSpec, evaluation: Mapping[str, float]) -> str:
    """The YAML block without its fences. `evaluation`: the last metrics on data declared public; {} leaves the results
    out."""
    task = task_of(spec)
    base = None if spec.about is None else spec.about.base_model
    facts: dict[str, Any] = {"library_name": "discreet"}
    if base is not None:
        facts = {"library_name": "peft", "base_model": base, "base_model_relation": "adapter"}
    if task is not None:
        facts["pipeline_tag"] = task
    facts["tags"] = ["differential-privacy", "dp-sgd", "pytorch", "safetensors"]
    if spec.language is not None:
        facts["tags"].append("transformers")
    metrics = {name: float(value) for name, value in evaluation.items() if math.isfinite(value)}
    if metrics:
        facts["metrics"] = list(metrics)
        facts["model-index"] = [{"name": name_of(spec), "results": [_result(spec, task, metrics)]}]
    return yaml.safe_dump(facts, sort_keys=False)


def task_of(spec: ModelSpec) -> str | None:
    """Hugging Face's name of the task; None if the folder does not tell."""
    if spec.language is not None:
        return language_task(spec.language)
    if spec.table is not None:
        columns = spec.table.get("schema", {}).get("columns", {}).values()
        wide = {"image", "text"} & {str(column.get("type")) for column in columns}
        if wide:
            return f"{wide.pop()}-classification" if spec.outputs == "classes" else None
        return "tabular-classification" if spec.outputs == "classes" else "tabular-regression"
    return _TASKS.get(spec.data or "")


def language_task(texts: OfTexts) -> str | None:
    """Hugging Face's name of the task of a language model."""
    return _LANGUAGE.get(texts.task)


def name_of(spec: ModelSpec) -> str:
    """The model's name: its name in the library, or its class."""
    return spec.model.name if spec.model is not None else (spec.module or "model").rpartition(".")[2]


def _result(spec: ModelSpec, task: str | None, metrics: Mapping[str, float]) -> dict[str, Any]:
    data = spec.data or "other"
    return {
        "task": {"type": task or "other"},
        "dataset": {"name": f"{data}, declared public", "type": data},
        "metrics": [{"type": name, "value": value} for name, value in metrics.items()],
    }
