"""The files of a published folder, and how to use its model: the same words for the report, the card and the docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.certificate.adapter_files import BESIDE, CONFIG, WEIGHTS
from discreet.certificate.files import RELEASED
from discreet.certificate.model_spec import ModelSpec
from discreet.publication.pages.purpose import purpose

INSTALL = "pip install discreet"
"""The command on published pages that installs a verifier: by a registry's name, or by a repository's address."""

CONTENTS: Mapping[str, str] = {
    "model.safetensors": "the weights, without any code",
    "model.json": "how to build the model again, what its inputs go through first, and what it does on public rows",
    WEIGHTS: "the adapters, as peft loads them onto the base model",
    CONFIG: "where the adapters belong in the base model, for peft",
    RELEASED: "what inputs go through first, as queries before the first step released it",
    "certificate.json": "the claim, and all that recomputes it",
    "plan.yaml": "the plan, for people",
    "report.html": "the report: the same in plain words, one page that can be printed",
    "README.md": "the model card",
    "verify.py": "a verifier in one file, for a reviewer who installs nothing",
    "signature.json": "who vouches for the folder, once it is signed",
}


def contents(facts: Mapping[str, Any]) -> dict[str, str]:
    """The files of the folder of the certificate `facts`, and the signature that it may get."""
    absent = {RELEASED} if "released" not in facts else set()
    absent |= set(BESIDE) if "base" not in facts else set()
    return {name: what for name, what in CONTENTS.items() if name not in absent}


def use_in_python(spec: ModelSpec) -> str:
    """A few lines of Python that predict, with their imports; FOLDER stands for the published folder."""
    if spec.about is not None and spec.about.base_model is not None:
        return (
            "import peft\n\n"
            "# base_model: the one that is named above, as from_pretrained of transformers loads it\n"
            'model = peft.PeftModel.from_pretrained(base_model, "FOLDER")'
        )
    lines = ["import discreet", ""]
    if spec.model is None:
        lines += [
            f"# build_model: a function of yours that returns {_module(spec)} as the script that trained it built it,",
            "# with the same arguments; the folder has its weights and none of its code",
            'predictor = discreet.load("FOLDER", model=build_model())',
        ]
    else:
        lines.append('predictor = discreet.load("FOLDER")')
    if spec.table is not None:
        lines.append(
            f'encoder, values = discreet.prediction.predict_table(predictor, "{_rows(spec)}")'
            "  # columns: encoder.classes"
        )
    elif spec.inputs is None:
        lines.append("predictor.predict(rows)  # rows: a tensor or an array, as those of training, a row along axis 0")
    else:
        shape = ", ".join(map(str, spec.inputs))
        lines.append(f"predictor.predict(rows)  # rows: an array of shape (n, {shape}), as the data has them")
    return "\n".join(lines)


def use_on_command_line(spec: ModelSpec) -> str | None:
    """A command that predicts; None for a module that only its maker can build again."""
    if spec.language is not None and spec.language.text is not None:
        if spec.language.task == "classification":
            return "discreet predict FOLDER new.csv --model BASE"
        return 'discreet generate FOLDER --model BASE --prompt "The"'
    return None if spec.model is None else f"discreet predict FOLDER {_rows(spec)}"


def _rows(spec: ModelSpec) -> str:
    """A name for new rows in example commands: a folder for images, a file otherwise."""
    return "photos/" if any(text.startswith("image") for _, text in purpose(spec).columns) else "new.csv"


def _module(spec: ModelSpec) -> str:
    """The module of the maker's own in words: the last part of the name of its class, if it is an identifier."""
    last = (spec.module or "").rpartition(".")[2]
    return f"the model ({last})" if last.isidentifier() else "the model"
