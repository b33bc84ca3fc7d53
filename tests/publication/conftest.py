"""A published folder that is trained once."""

from published_copies import folder, original  # noqa: F401
