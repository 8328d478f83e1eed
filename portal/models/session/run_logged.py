"""Pictures and tables that a run's point has logged, in a bounded size."""

from __future__ import annotations

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


def image_type(content: bytes) -> str:
    """Return the media type of a picture by what it begins with; "" if it is of no known type."""
    return next((kind for start, kind in _TYPES.items() if content.startswith(start)), "")


def _image(content: bytes) -> bytes:
    if not image_type(content):
        raise ValueError("It is neither a PNG nor a JPEG picture.")
    if len(content) > _LARGEST_IMAGE:
        raise ValueError(f"It has more than {_LARGEST_IMAGE} bytes.")
    return content


LoggedName = Annotated[str, StringConstraints(pattern=r"^\w[\w .,()=+-]{0,79}$")]
LoggedImage = Annotated[Base64Bytes, AfterValidator(_image)]
_Row = Annotated[tuple[Parameter, ...], Field(max_length=_MOST_COLUMNS)]
LoggedTable = Annotated[tuple[_Row, ...], Field(min_length=1, max_length=_MOST_ROWS)]


class Logged(Frozen):
    """Pictures and tables by name. The first row of a table has the names of its columns."""

    images: Annotated[dict[LoggedName, LoggedImage], Field(max_length=_MOST)] = {}
    tables: Annotated[dict[LoggedName, LoggedTable], Field(max_length=_MOST)] = {}
