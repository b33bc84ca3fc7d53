"""For a reviewer who installs nothing: one file that checks a published folder."""

from importlib import resources


def verifier_file() -> bytes:
    """The bytes of verify.py, which every published folder has."""
    return resources.files(__name__).joinpath("verify.py").read_bytes()
