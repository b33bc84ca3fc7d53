"""Made-up photos in colour, whose colour alone tells their class."""

from __future__ import annotations

import random
from collections.abc import Iterator
from io import BytesIO

RIPE, UNRIPE = (255, 40, 40), (58, 137, 58)
"""Colours of equal luma (ITU-R 601), so that they are alike in grey."""

_SIDE = 24


def fruit(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """The path of each of `count` images, under a folder for its class, and its content as PNG."""
    from PIL import Image, ImageDraw

    generator = random.Random(seed)
    for number in range(count):
        ripe = generator.random() < 0.5
        image = Image.new("RGB", (_SIDE, _SIDE), (generator.randint(30, 90),) * 3)
        light, radius = generator.uniform(0.6, 1.0), generator.randint(4, 8)
        x, y = (generator.randint(radius, _SIDE - radius) for _ in range(2))
        colour = tuple(round(light * channel) for channel in (RIPE if ripe else UNRIPE))
        ImageDraw.Draw(image).ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
        file = BytesIO()
        image.save(file, "PNG")
        yield f"{'ripe' if ripe else 'unripe'}/{number}.png", file.getvalue()
