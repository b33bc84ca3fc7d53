"""Digests of tensors: they declare the initial state of a run, and show whether fixed tensors changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from discreet.clipping.admission.admission import private_names
from discreet.clipping.admission.foreign import refuse_foreign
from discreet.core.errors import PrivacyViolation, UnsupportedModel

TYPE_NAMES: Mapping[torch.dtype, str] = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}
"""Types of real numbers by the names that the safetensors format gives them."""


def tensor_digest(tensor: Tensor) -> str:
    """SHA-256 of type name, shape and little-endian bytes, which a reader of the safetensors file can recompute."""
    refuse_foreign({"a tensor": tensor})
    if tensor.dtype not in TYPE_NAMES:
        raise UnsupportedModel(f"a tensor of type {tensor.dtype} cannot be published; convert it to a real type")
    plain = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{TYPE_NAMES[plain.dtype]}{list(plain.shape)}".encode())
    digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def state_digests(model: nn.Module) -> dict[str, str]:
    """The digest of every tensor of the state dictionary, by name."""
    return {name: tensor_digest(tensor) for name, tensor in model.state_dict().items()}


def hidden_digests(model: nn.Module) -> dict[str, str]:
    """The digest of every unpublished buffer, by name; examples could influence each other through such buffers."""
    published = set(model.state_dict())
    hidden = {name: buffer for name, buffer in model.named_buffers() if name not in published}
    return {
        name: tensor_digest(torch.view_as_real(buffer.resolve_conj()) if buffer.is_complex() else buffer)
        for name, buffer in hidden.items()
    }


def combined_digest(digests: Mapping[str, str]) -> str:
    """One digest for a whole state."""
    text = "\n".join(f"{name} {digests[name]}" for name in sorted(digests))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def check_unchanged(model: nn.Module, initial: Mapping[str, str], hidden: Mapping[str, str] | None = None) -> None:
    """Refuse a state in which anything but a private parameter differs from the declared initial state.

    A published tensor is either a private parameter, which only releases have changed, or was declared public. A
    buffer that changed may hold private data that was not charged. `hidden`: the initial digests of unpublished
    buffers, if known. `PrivacyViolation` names what changed.
    """
    private = private_names(model)
    state = model.state_dict()
    if set(state) != set(initial):
        changed = sorted(set(state) ^ set(initial))
        raise PrivacyViolation(f"tensors {changed} appeared or vanished during training; nothing is published")
    for name, tensor in state.items():
        if name not in private and tensor_digest(tensor) != initial[name]:
            raise PrivacyViolation(
                f"tensor {name!r} is not a private parameter but changed during training, so it may hold private "
                "data; nothing is published"
            )
    if hidden is not None and hidden_digests(model) != hidden:
        raise PrivacyViolation(
            "a buffer outside the state dictionary changed during training, so examples may have influenced each "
            "other; nothing is published"
        )
