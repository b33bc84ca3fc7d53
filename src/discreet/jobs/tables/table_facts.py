"""Facts about a table, texts or images from the user: the path of a schema, or the facts that stand in for one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from discreet.core.errors import InputError

_IN_PLACE = ("--text", "--image", "--size", "--mode", "--classes", "--vocabulary")


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Facts about a table or folder of images: its schema, or facts in its place, and tables declared public.

    In the place of a schema: the `text` or `image` column of a table, the `size` and `mode` of its images, the
    `vocabulary` of its texts, its `classes`.
    """

    schema: Path | None = None
    target: str | None = None
    unit: str | None = None
    test: Path | None = None
    public: Path | None = None
    text: str | None = None
    image: str | None = None
    size: str | None = None
    mode: str | None = None
    classes: str | None = None
    vocabulary: Path | None = None

    @property
    def given(self) -> list[str]:
        """The options by which they were given."""
        return [f"--{one.name}" for one in fields(self) if getattr(self, one.name) is not None]

    @property
    def given_in_place(self) -> list[str]:
        """The given options that stand in for a schema."""
        return [option for option in self.given if option in _IN_PLACE]

    @property
    def class_names(self) -> list[str]:
        """The declared classes, if any; `InputError` for one without a name, or named twice."""
        names = [] if self.classes is None else [name.strip() for name in self.classes.split(",")]
        if "" in names:
            raise InputError(f"--classes {self.classes} has a class without a name; leave a comma out")
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"--classes {self.classes} names {twice[0]!r} twice; leave one out")
        return names

    @property
    def declared_public(self) -> Path | None:
        """A table declared public, from which classes may be taken."""
        return self.public if self.test is None else self.test


NO_TABLE = TableFacts()
