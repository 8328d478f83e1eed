"""Metrics of a run's point, in one line: ``from portal_metrics import log; log(loss=0.3, step=7)``.

The portal shows the newest values of each point, and its pictures and tables. Outside of a run,
nothing is kept. This module is found by the Python kernels and terminals of a session
(`environment.LIBRARY`), and imports the standard library only.
"""

import io
import json
import math
import os
import re
import tempfile
from pathlib import Path

_VARIABLE = "PORTAL_METRICS"  # path of the file, a line of JSON for each call
_LOGGED = "logged"  # folder beside it, of pictures and tables
_NAME = re.compile(r"\w[\w .,()=+-]{0,79}")
_TYPES = ((b"\x89PNG\r\n\x1a\n", ".png"), (b"\xff\xd8\xff", ".jpg"))


def log(**metrics):  # type: ignore[no-untyped-def]
    """Keep numbers by name, such as ``loss=0.3``: what float() takes, arrays and tensors of one
    element too. Raises TypeError or ValueError for others."""
    numbers = {name: float(value) for name, value in metrics.items()}
    path = os.environ.get(_VARIABLE)
    if not path or not numbers:
        return
    # JSON has no NaN and no infinity: they are kept as text.
    record = {name: n if math.isfinite(n) else str(n) for name, n in numbers.items()}
    line = json.dumps(record).encode() + b"\n"
    # One write to a file that is opened for appending: lines of several processes do not mix.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def log_image(name, image):  # type: ignore[no-untyped-def]
    """Keep a picture by name: a figure of Matplotlib, an image of Pillow, the bytes of a PNG or
    JPEG file, or its path. A later one of the same name replaces it. Raises ValueError for others,
    OSError."""
    save = getattr(image, "savefig", None) or getattr(image, "save", None)
    if save is not None:
        file = io.BytesIO()
        save(file, format="png")
        content = file.getvalue()
    elif isinstance(image, (bytes, bytearray)):
        content = bytes(image)
    else:
        content = Path(image).read_bytes()
    for start, suffix in _TYPES:
        if content.startswith(start):
            return _keep(name, suffix, content)
    raise ValueError("A picture is a PNG or JPEG file, a figure of Matplotlib or a Pillow image.")


def log_table(name, rows):  # type: ignore[no-untyped-def]
    """Keep a table by name: a data frame, or a list of rows, the first of which has the names of
    the columns. A later one of the same name replaces it. Raises ValueError, OSError."""
    if hasattr(rows, "columns"):
        rows = [list(rows.columns), *rows.values.tolist()]
    text = json.dumps([list(row) for row in rows], default=_plain)
    _keep(name, ".json", text.encode())


def _plain(cell):  # type: ignore[no-untyped-def]
    """Return a number of NumPy as Python's, and all else as text."""
    return cell.item() if hasattr(cell, "item") else str(cell)


def _keep(name, suffix, content):  # type: ignore[no-untyped-def]
    """Write a file beside the metrics; a reader sees the whole file, or the one before."""
    if not _NAME.fullmatch(name):
        raise ValueError("A name has letters, digits, spaces and _ . , ( ) = + -, 80 at most.")
    path = os.environ.get(_VARIABLE)
    if not path:
        return
    folder = Path(path).parent / _LOGGED
    folder.mkdir(exist_ok=True)
    descriptor, part = tempfile.mkstemp(prefix=".", dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(part).replace(folder / (name + suffix))
