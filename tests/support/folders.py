"""Folders as they are published, without training: `load` takes them, `verify` does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from discreet.certificate.canonical import digest
from discreet.certificate.model_spec import ModelSpec


def folder_of(path: Path, model: nn.Module, spec: ModelSpec, released: dict[str, Tensor] | None = None) -> Path:
    """A folder that `load` takes (its files have the hashes that its certificate states), with drawn weights."""
    generator = torch.Generator().manual_seed(0)
    state = {
        name: (torch.randn(one.shape, generator=generator) / 4).to(one.dtype) if one.is_floating_point() else one
        for name, one in model.state_dict().items()
    }
    files = dict.fromkeys(("plan.yaml", "report.html", "README.md", "verify.py"), b"")
    files["model.json"], weights, extras = spec.to_json().encode(), save(state), save(released or {})
    claim = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "add_remove", "unit": "example"}
    facts: dict[str, Any] = {"claim": claim, "model": {"sha256": digest(weights), "private": sorted(state)}}
    facts["model"]["initial"] = dict.fromkeys(state, "0" * 64)
    facts["ledger"] = {"entries": [{"kind": "run", "run": "5" * 32}]}
    facts["files"] = {name: digest(content) for name, content in files.items()}
    if released:
        facts["released"] = {"sha256": digest(extras)}
        files["released.safetensors"] = extras
    path.mkdir()
    files |= {"model.safetensors": weights, "certificate.json": json.dumps(facts).encode()}
    for name, content in files.items():
        (path / name).write_bytes(content)
    return path
