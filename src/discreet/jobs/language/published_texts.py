"""A published language model, on the base model that it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from discreet.certificate.canonical import digest
from discreet.certificate.described import OfTexts
from discreet.certificate.files import CERTIFICATE, MODEL, read, read_certificate
from discreet.certificate.model_spec import ModelSpec
from discreet.core.errors import InputError, VerificationFailed
from discreet.core.imports.extras import extra
from discreet.jobs.language.base_folder import load_for
from discreet.language import TransformersModel, task_named, weights_digest
from discreet.verification import verify


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTexts:
    """`inner`: the model of `transformers`, or of `peft` if adapters were published (`adapters`). `texts`: what it is
    for. `certificate`: the facts, whose claim was verified."""

    tokenizer: Any
    inner: Any
    adapters: bool
    texts: OfTexts
    certificate: dict[str, Any]
    digest: str

    @classmethod
    def of(cls, folder: Path, base: Path, what: str) -> PublishedTexts:
        """The model in a published folder, on the base model in the folder `base`. `what` needs it, in errors.

        `VerificationFailed` unless the certificate supports its claim; `InputError` if the base is another model.
        """
        if not (verdict := verify(folder, signed=False)).accepted:
            raise VerificationFailed(f"{folder}: {verdict.summary}")
        facts = read_certificate(folder)
        texts = ModelSpec.from_json(read(folder / "model.json")).language or OfTexts(task="causal-lm")
        task = task_named(texts.task)
        tokenizer, model = load_for(base, task, texts.classes, what)
        adapters = "base" in facts
        if adapters:
            if weights_digest(model) != (certified := facts["base"]["sha256"]):
                raise InputError(
                    f"{base} is not the model {facts['base']['name']!r} that these adapters belong to: its weights "
                    f"have another hash than the {certified[:12]}... of the certificate; name the folder that they "
                    "were trained on, as it was then"
                )
            model = extra("peft", "hf", what).PeftModel.from_pretrained(model, str(folder))
        else:
            try:
                TransformersModel(model.float(), task).load_state_dict(load_file(folder / MODEL))
            except RuntimeError:
                raise InputError(f"{folder} does not hold a model of the kind in {base}") from None
        return cls(tokenizer, model.eval(), adapters, texts, facts, digest(read(folder / CERTIFICATE)))
