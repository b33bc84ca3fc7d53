"""Changes to the model of a published folder, with the certificate left as it is or made to fit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from forging import edit, put
from problems import WithPublicTensors, linear
from safetensors.torch import load, save


def replace_model(folder: Path, content: bytes, *, rehash: bool) -> None:
    (folder / "model.safetensors").write_bytes(content)
    if rehash:
        edit(put("model", "sha256", value=hashlib.sha256(content).hexdigest()))(folder)


def state(folder: Path) -> dict[str, torch.Tensor]:
    return load((folder / "model.safetensors").read_bytes())


def flip_a_byte(folder: Path) -> None:
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-5] ^= 1
    replace_model(folder, bytes(content), rehash=False)


def change_public_tensor(folder: Path) -> None:
    tensors = state(folder)
    replace_model(folder, save(tensors | {"shift": tensors["shift"] + 1e-3}), rehash=True)


def change_public_tensor_and_its_digest(folder: Path) -> None:
    change_public_tensor(folder)
    digest = hashlib.sha256(b"F32[4]" + state(folder)["shift"].numpy().tobytes()).hexdigest()
    edit(put("model", "initial", "shift", value=digest))(folder)


def add_a_tensor(folder: Path) -> None:
    replace_model(folder, save(state(folder) | {"stowaway": torch.ones(2)}), rehash=True)


def swap_the_model(folder: Path) -> None:
    replace_model(folder, save(WithPublicTensors().state_dict()), rehash=False)


def swap_the_model_and_rehash(folder: Path) -> None:
    replace_model(folder, save(linear().state_dict()), rehash=True)


def garble_the_model_and_rehash(folder: Path) -> None:
    replace_model(folder, b"\xff" * 7, rehash=True)
