"""`discreet merge`: the adapters of a published folder, added to the weights of the base model.

It is post-processing: whoever has the folder and the base model can do it again.
"""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError

from discreet.certificate.earlier_runs import EarlierRun
from discreet.certificate.files import PROOF
from discreet.core.disk import real, whole_folder
from discreet.core.errors import InputError
from discreet.core.imports.extras import extra
from discreet.core.rounding import delta_up, places_up
from discreet.jobs.language.base_folder import without_bars
from discreet.jobs.language.published_texts import PublishedTexts
from discreet.publication.pages.formats import markdown, template
from discreet.publication.pages.front_matter import language_task
from discreet.publication.pages.measured_words import canaries


def merge(folder: Path, base: Path, out: Path) -> PublishedTexts:
    """Write a folder `out` that `from_pretrained` of `transformers` loads, with the tokenizer, a model card, and the
    published folder below it.

    `VerificationFailed` unless the certificate supports its claim; `InputError` if there are no adapters, if the base
    is another model, or if `out` exists.
    """
    if real(out).exists():
        raise InputError(f"{out} exists already; name another folder with --out")
    published = PublishedTexts.of(folder, base, "discreet merge")
    if not published.adapters:
        raise InputError(f"{folder} holds a whole model and no adapters; there is nothing to merge")
    try:
        merged: Any = published.inner.merge_and_unload()
    except (ValueError, NotImplementedError, AttributeError) as error:  # prompts have no weights to add to
        raise InputError(f"these adapters cannot be merged: {error}") from None
    if classes := published.texts.classes:
        merged.config.id2label = dict(enumerate(classes))
        merged.config.label2id = {name: place for place, name in enumerate(classes)}
    try:
        with whole_folder(out) as draft, without_bars(extra("transformers", "hf", "discreet merge")):
            merged.save_pretrained(draft)
            published.tokenizer.save_pretrained(draft)
            shutil.copytree(folder, draft / PROOF)
            (draft / "README.md").write_text(card(published), encoding="utf-8")
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {out}: {why}; choose a folder that can be written") from None
    return published


def card(published: PublishedTexts) -> str:
    """The model card of a merged model, with YAML front matter as Hugging Face reads it."""
    facts, texts = published.certificate, published.texts
    front: dict[str, Any] = {
        "library_name": "transformers",
        "base_model": facts["base"]["name"],
        "base_model_relation": "finetune",
        "pipeline_tag": language_task(texts),
        "tags": ["differential-privacy", "dp-sgd", "pytorch", "safetensors"],
    }
    claim = facts["claim"]
    shown = canaries(texts, float(claim["epsilon"]), float(claim["delta"]))
    return template("merged.md.j2", escaped=False).render(
        front_matter=yaml.safe_dump({name: value for name, value in front.items() if value}, sort_keys=False),
        base=json.dumps(facts["base"]["name"]),
        revision=facts["base"]["revision"],
        base_digest=facts["base"]["sha256"],
        digest=published.digest,
        epsilon=places_up(claim["epsilon"]),
        delta=delta_up(claim["delta"]),
        earlier=[markdown(one.line) for one in EarlierRun.named(facts.get("warm_start"))],
        canaries=shown,
        exposure=statistics.mean(one.exposure for one in shown) if shown else 0.0,
        proof=PROOF,
    )
