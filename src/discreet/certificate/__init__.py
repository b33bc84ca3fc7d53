"""The format of a published folder: its files, their digests, schema and signature."""

from discreet.certificate.model_spec import ModelSpec

__all__ = ["ModelSpec"]
