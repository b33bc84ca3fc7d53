"""Adapters of `peft` in a published folder: the files that it reads, and the public model that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.certificate.adapter_files import BASE, CONFIG, WEIGHTS, plain_name
from discreet.certificate.tensorfile import tensor_digests
from discreet.core.errors import PrivacyViolation


@dataclass(frozen=True, slots=True)
class Adapters:
    """`name` and `revision` of the base model, as people find it. `config` and `weights`: the files of `peft`."""

    name: str
    revision: str | None
    config: bytes
    weights: bytes

    @property
    def files(self) -> dict[str, bytes]:
        """The files by name."""
        return {CONFIG: self.config, WEIGHTS: self.weights}

    def declared(self, state: Mapping[str, Any], final: Mapping[str, str], private: set[str]) -> dict[str, Any]:
        """The base model as a certificate names it. `state`: the tensors of the trained model. `final`: their digests.

        `PrivacyViolation` unless the file of weights holds exactly the tensors that were trained.
        """
        wanted = {plain_name(name): final[name] for name in private}
        if (found := tensor_digests(self.weights)) != wanted:
            wrong = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
            raise PrivacyViolation(
                f"what would be saved is not what was trained: {wrong[0]!r} differs; nothing is published. If these "
                "adapters are of a kind that peft saves under other names (prompts, DoRA), publish the whole model"
            )
        return {"name": self.name, "revision": self.revision, "sha256": bytes(state[BASE].tolist()).hex()}
