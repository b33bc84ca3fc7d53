"""Files of a published folder that hold adapters as `peft` reads them, beside the certified model.

Their tensors are those that were trained; the weights below them are declared by one hash, a tensor of the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from discreet.certificate.tensorfile import tensor_digests

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

BESIDE = (CONFIG, WEIGHTS)
"""Files whose hashes the certificate states if it names a base model."""

BASE = "base_sha256"
"""The tensor of the model that holds the hash of the weights below the adapters: 32 bytes."""


def plain_name(name: str) -> str:
    """The name of a tensor in `WEIGHTS`, from that in the model."""
    return name.replace(".modules_to_save.default", "").replace(".default", "").removeprefix("inner.")


def adapter_fault(facts: Mapping[str, Any], model: bytes, read: Callable[[str], bytes]) -> str | None:
    """The fault in the adapters of a certificate that names a base model; None if there is none.

    `model`: the certified tensors. `read`: returns a file of the folder.
    """
    base = facts.get("base")
    if base is None:
        return None
    found, given = tensor_digests(model), tensor_digests(read(WEIGHTS))
    if given != {plain_name(name): found.get(name) for name in facts["model"]["private"]}:
        return f"{WEIGHTS} does not hold the tensors that were trained"
    declared = hashlib.sha256(b"U8[32]" + bytes.fromhex(base["sha256"])).hexdigest()
    return None if found.get(BASE) == declared else "the hash of the base model is not that of the trained model"
