"""What is kept of a model with adapters: the trained tensors, and one hash of all weights that were given.

The hash is that of the base model itself, so whoever has that model can compute it (`weights_digest`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from discreet.certificate.adapter_files import BASE
from discreet.clipping.admission.admission import private_names
from discreet.clipping.digests import combined_digest, tensor_digest
from discreet.core.errors import InputError


def base_name(name: str) -> str:
    """The name of a weight in the base model, from that in the model with adapters."""
    for part in (".base_layer", ".original_module"):
        name = name.replace(part, "")
    return name.removeprefix("base_model.model.")


def weights_digest(model: nn.Module, trained: Collection[str] = ()) -> str:
    """SHA-256 of the weights of a model by their names, without the `trained` ones, as 64 hexadecimal digits.

    Of a model that was loaded from a folder it is the hash that certificates of adapters name.
    """
    state = model.state_dict()
    found = {base_name(name): tensor_digest(tensor) for name, tensor in state.items() if name not in trained}
    return combined_digest(found).removeprefix("sha256:")


def kept_state(inner: nn.Module) -> dict[str, Tensor]:
    """The trained tensors by their names in `inner`, and the hash of all others."""
    trained = private_names(inner)
    digest = torch.frombuffer(bytearray.fromhex(weights_digest(inner, trained)), dtype=torch.uint8)
    return {name: tensor for name, tensor in inner.state_dict().items() if name in trained} | {BASE: digest}


def restore_state(inner: nn.Module, kept: Mapping[str, Tensor]) -> None:
    """Put back what `kept_state` gave. `InputError` if the base weights are other ones, or names differ."""
    state: dict[str, Any] = dict(kept)
    given, trained = state.pop(BASE, None), private_names(inner)
    if given is None or bytes(given.tolist()).hex() != weights_digest(inner, trained):
        raise InputError(
            "these adapters were trained on other base weights; load the base model that is named with them"
        )
    if set(state) != trained:
        raise InputError(f"tensors {sorted(set(state) ^ trained)[:3]} are not those of these adapters")
    inner.load_state_dict(state, strict=False)
