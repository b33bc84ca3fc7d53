"""One image file as pixels of the declared size and mode. No file can make that slow or large."""

from __future__ import annotations

import io
import stat
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError

from discreet.core.errors import InputError
from discreet.data.tables.wide import Image

FORMATS = ("PNG", "JPEG", "BMP", "PPM", "TIFF", "WEBP", "GIF")
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".pgm", ".ppm", ".tif", ".tiff", ".webp", ".gif")

MOST_BYTES = 64 << 20
MOST_PIXELS = 1 << 26
"""The most pixels of a file; checked before they are unpacked."""

_WHITE = (255, 255, 255, 255)
_MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "I;16", "I;16B", "I;16L")
_BROKEN = (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, struct.error, OverflowError)
"""What Pillow raises for a file that is broken."""


def pixels(source: Path | bytes, column: Image) -> bytes:
    """The pixels of an image as a schema declares them: channels x height x width bytes.

    `InputError` says in a few words why there are none; the caller names the image.
    """
    content = source if isinstance(source, bytes) else _content(source)
    try:
        with _warned(), Pillow.open(io.BytesIO(content), formats=FORMATS) as image:
            _check(image)
            return _resized(_plain(ImageOps.exif_transpose(image)), column)
    except UnidentifiedImageError:
        raise InputError("is no image that can be read (png, jpeg, bmp, ppm, tiff, webp, gif)") from None
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning, MemoryError):
        raise InputError(f"has more than {MOST_PIXELS >> 20} million pixels; make it smaller") from None
    except InputError:
        raise
    except _BROKEN as error:
        reason = " ".join(str(error).split())[:80]
        raise InputError(f"is a broken image ({reason})") from None


def is_coloured(path: Path) -> bool:
    """Whether an image has colours, by its mode. Errors as in `pixels`, except faulty pixels."""
    try:
        with _warned(), Pillow.open(path, formats=FORMATS) as image:
            return image.mode not in ("1", "L", "LA", "La", "I;16", "I;16B", "I;16L")
    except (*_BROKEN, Pillow.DecompressionBombError, Pillow.DecompressionBombWarning):
        raise InputError(f"{path}: is no image that can be read") from None


@contextmanager
def _warned() -> Iterator[None]:
    """Turns Pillow's warnings of too large files into errors, and ignores its other warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", Pillow.DecompressionBombWarning)
        yield


def _content(path: Path) -> bytes:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise InputError("is no file")
        if facts.st_size > MOST_BYTES:
            raise InputError(f"has more than {MOST_BYTES >> 20} MB; make it smaller")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    if not content:
        raise InputError("is an empty file")
    return content


def _check(image: Pillow.Image) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise InputError(f"has {width} x {height} pixels, more than {MOST_PIXELS >> 20} million; make it smaller")
    if image.mode not in _MODES:
        raise InputError(f"has the mode {image.mode}; save it as grey or RGB, with 8 or 16 bits")
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        raise InputError(f"has {frames} frames; save one image to a file")


def _plain(image: Pillow.Image) -> Pillow.Image:
    """In 8 bits, grey or RGB, on white."""
    if image.mode.startswith("I;16"):
        return Pillow.fromarray((np.asarray(image).astype(np.uint32) // 257).astype(np.uint8))
    if image.mode in ("1", "L"):
        return image.convert("L")
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    whole = image.convert("RGBA")
    flat = Pillow.alpha_composite(Pillow.new("RGBA", whole.size, _WHITE), whole)
    return flat.convert("L" if image.mode in ("LA", "La") else "RGB")


def _resized(image: Pillow.Image, column: Image) -> bytes:
    image = image.convert("L" if column.mode == "grey" else "RGB")
    if image.size != column.size:
        kind = Pillow.Resampling.BILINEAR
        if column.fit == "stretch":
            image = image.resize(column.size, kind)
        elif column.fit == "crop":
            image = ImageOps.fit(image, column.size, kind)
        else:
            image = ImageOps.pad(image, column.size, kind)
    found = np.asarray(image)
    return (found if found.ndim == 2 else np.moveaxis(found, 2, 0)).tobytes()
