"""Columns whose one value becomes many inputs of a model: an image, or a text. A model sees such a column alone.

| type  | a value is                                                | it becomes                                      |
|-------|-----------------------------------------------------------|-------------------------------------------------|
| image | the path of a file, relative to the table; or its content | `size` pixels, in `mode`                        |
| text  | a text                                                    | numbers of its words, by a public hash, or by a |
|       |                                                           | declared `vocabulary`                           |
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from discreet.plan.pydantic_base import Frozen

SMALLEST, LARGEST = 6, 512
"""Limits of an image's side in pixels, after resizing."""

_MOST_BUCKETS = 1 << 20
"""Numbers of words are stored as float32, which is exact to 2^24."""

_SIZE = re.compile(r"(\d{1,4})\s*x\s*(\d{1,4})", re.IGNORECASE)

Side = Annotated[int, Field(ge=SMALLEST, le=LARGEST)]


def _sides(value: object) -> object:
    """(28, 28) of "28x28", width first; one number for both sides."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            raise ValueError("give width x height in pixels, for example 28x28")
        return int(found[1]), int(found[2])
    return (value, value) if isinstance(value, int) and not isinstance(value, bool) else value


class Image(Frozen):
    """An image, resized to `size` = width x height pixels, with one grey channel or three colour channels.

    `fit`: an image of another shape is stretched, cropped around its middle (crop), or padded with black (pad). Colours
    become grey by their luma (ITU-R 601), grey becomes three equal channels, 16 bits become 8, and transparent pixels
    become white. `unreadable`: the treatment of a file that is no image, or too large.
    """

    type: Literal["image"] = "image"
    size: Annotated[tuple[Side, Side], BeforeValidator(_sides)]
    mode: Literal["grey", "rgb"] = "grey"
    fit: Literal["stretch", "crop", "pad"] = "stretch"
    missing: Literal["drop", "refuse"] | None = None
    unreadable: Literal["drop", "refuse"] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(channels, height, width)."""
        return (1 if self.mode == "grey" else 3, self.size[1], self.size[0])


class FreeText(Frozen):
    """A text as its first `length` different taken words, each as a number from 1 to `buckets`, by a public hash.

    `take`: the words to take. For English, "stems" (without endings and stop words, marked after a negation), "content"
    (all but stop words) or "words"; in any language, "any": all runs of letters and digits. With a `vocabulary`,
    declared public, only its words are taken, and a word's number is its place.
    """

    type: Literal["text"] = "text"
    take: Literal["stems", "content", "words", "any"] = "stems"
    buckets: Annotated[int, Field(ge=1, le=_MOST_BUCKETS)] = 1 << 16
    length: Annotated[int, Field(ge=1, le=4096)] = 256
    vocabulary: Annotated[tuple[str, ...], Field(max_length=_MOST_BUCKETS)] | None = None
    missing: Literal["flag", "drop", "refuse"] | None = None

    @model_validator(mode="after")
    def _a_vocabulary(self) -> FreeText:
        if self.vocabulary is not None and not self.vocabulary:
            raise ValueError("the vocabulary is empty; list at least one word, or leave it out")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """(length,)."""
        return (self.length,)

    @property
    def words(self) -> int:
        """The largest number of a word."""
        return self.buckets if self.vocabulary is None else len(self.vocabulary)


Wide = Image | FreeText
"""A column that a model sees alone."""
