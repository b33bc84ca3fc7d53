"""`publish_adapters`: the adapters of a private run, with their proof, as `peft` loads them. Needs `discreet[hf]`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import save

from discreet.certificate.described import About, Exposed, OfTexts
from discreet.certificate.model_spec import ModelSpec, of_module
from discreet.clipping.admission.admission import private_names
from discreet.core.errors import InputError, kind_of
from discreet.core.guarantee import Guarantee
from discreet.core.imports.extras import extra
from discreet.integrations.moved import check_moved
from discreet.language.tasks import base_of
from discreet.plan.pydantic_base import validate
from discreet.publication import publish
from discreet.publication.adapters import Adapters
from discreet.training import Trained

_NAME = re.compile(r"[!-~]{1,200}")


def publish_adapters(
    trained: Trained,
    folder: str | Path,
    *,
    base: str | None = None,
    revision: str | None = None,
    spec: ModelSpec | None = None,
    canaries: Sequence[Exposed] = (),
) -> Guarantee:
    """Publish what `discreet.publish` does, of the adapters alone, with the two files from which
    `PeftModel.from_pretrained(base_model, folder)` loads them.

    `base`: the public name of the model below them, which the certificate states with its hash; by default the last
    part of the name or folder that it was loaded from. `revision`: which version of it. `canaries`: what
    `discreet.language.exposures` says of those that were declared.

    Before anything is written it is checked that exactly the trainable weights moved, and that the file holds what was
    trained, tensor by tensor: `PrivacyViolation`.
    """
    if not isinstance(trained, Trained):
        raise InputError(
            f"publish_adapters needs what a run returned, got {kind_of(trained)}; call train() first, and give "
            "trainer.trained"
        )
    model: Any = trained.model
    if not getattr(model, "adapters", False):
        raise InputError("the trained model has no adapters of peft; discreet.publish publishes all of it")
    inner = model.inner
    name = base or Path(str(getattr(base_of(inner).config, "_name_or_path", "") or "")).name
    for what, text in (("base", name), ("revision", revision)):
        if text is not None and not _NAME.fullmatch(text):
            raise InputError(f"{what} must be a public name without spaces, such as 'org/model', got {text!r}")
    check_moved(trained.initial, trained.final, private_names(model))
    adapters = Adapters(name, revision, _config(inner, name, revision), _weights(inner))
    spec = spec or of_module(model)
    about = (spec.about or About()).model_copy(update={"base_model": name})
    language = spec.language or OfTexts(task=model.task.name)
    shown = tuple(canaries) or language.canaries
    spec = replace(spec, about=about, language=validate(OfTexts, {**dict(language), "canaries": shown}, "canaries"))
    return publish(trained, folder, spec, adapters)


def _config(inner: Any, name: str, revision: str | None) -> bytes:
    """adapter_config.json, with the public name of the base model in the place of the folder that it came from."""
    config = inner.peft_config[inner.active_adapter]
    kept = config.base_model_name_or_path, config.revision, config.inference_mode
    config.base_model_name_or_path, config.revision, config.inference_mode = name, revision, True
    try:
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            return Path(folder, "adapter_config.json").read_bytes()
    finally:
        config.base_model_name_or_path, config.revision, config.inference_mode = kept


def _weights(inner: Any) -> bytes:
    """adapter_model.safetensors."""
    peft = extra("peft", "hf", "publish_adapters")
    if inner.active_adapter != "default" or len(inner.peft_config) != 1:
        raise InputError("adapters are published if they are the only ones of the model, under the name 'default'")
    state = peft.get_peft_model_state_dict(inner)
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()})
