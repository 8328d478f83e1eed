"""Pictures and tables that a run's point has logged, in a bounded size."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Base64Bytes, Field, StringConstraints

from .. import Frozen
from .run import Parameter

LARGEST = 4 * 1024 * 1024  # bytes of a request; the job's program sends files of 1 MiB in all
_LARGEST_IMAGE = 1024 * 1024
_MOST = 12  # pictures, and tables
_MOST_ROWS = 501  # of a table, with the names of its columns
_MOST_COLUMNS = 50
# What files of these types begin with. Others, such as SVG, can have scripts in them.
_TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
# In a mebibyte, a picture of one colour can have so many that a browser has no memory for them.
_MOST_PIXELS = 50_000_000
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # JPEG's markers SOF0 to SOF15
_ALONE = {0x00, 0x01, *range(0xD0, 0xDA), 0xFF}  # those without a length


def image_type(content: bytes) -> str:
    """Return the media type of a picture by what it begins with; "" if it is of no known type."""
    return next((kind for start, kind in _TYPES.items() if content.startswith(start)), "")


def pixels(content: bytes) -> int:
    """Return the number of a picture's pixels by its header (PNG: ISO/IEC 15948, 11.2.2; JPEG: ITU
    T.81, B.2.2); 0 if it has none."""
    if image_type(content) == "image/png":
        return int.from_bytes(content[16:20], "big") * int.from_bytes(content[20:24], "big")
    at = 2
    while 0 <= (at := content.find(b"\xff", at)) < len(content) - 8:
        marker = content[at + 1]
        if marker in _FRAMES:
            height, width = (int.from_bytes(content[at + n : at + n + 2], "big") for n in (5, 7))
            return height * width
        skipped = int.from_bytes(content[at + 2 : at + 4], "big")
        at += 1 if marker in _ALONE else 2 + skipped
    return 0


def _image(content: bytes) -> bytes:
    if not image_type(content):
        raise ValueError("It is neither a PNG nor a JPEG picture.")
    if pixels(content) > _MOST_PIXELS:
        raise ValueError(f"It has more than {_MOST_PIXELS} pixels.")
    if len(content) > _LARGEST_IMAGE:
        raise ValueError(f"It has more than {_LARGEST_IMAGE} bytes.")
    return content


# Compiled, so that it has the same letters as `portal_metrics` and addresses: \w of pydantic's own
# expressions (Rust's) lacks "²", and has letters that nobody sees.
_NAME = re.compile(r"^\w[\w .,()=+-]{0,79}$(?!\n)")
LoggedName = Annotated[str, StringConstraints(pattern=_NAME)]
LoggedImage = Annotated[Base64Bytes, AfterValidator(_image)]
_Row = Annotated[tuple[Parameter, ...], Field(max_length=_MOST_COLUMNS)]
LoggedTable = Annotated[tuple[_Row, ...], Field(min_length=1, max_length=_MOST_ROWS)]


class Logged(Frozen):
    """Pictures and tables by name. The first row of a table has the names of its columns."""

    images: Annotated[dict[LoggedName, LoggedImage], Field(max_length=_MOST)] = {}
    tables: Annotated[dict[LoggedName, LoggedTable], Field(max_length=_MOST)] = {}
