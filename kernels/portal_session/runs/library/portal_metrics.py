"""Metrics of a run's point, in one line: ``from portal_metrics import log; log(loss=0.3, step=7)``.

The portal shows the newest values of each point. Outside of a run, ``log`` does nothing. This
module is found by the Python kernels and terminals of a session (`environment.LIBRARY`), and
imports the standard library only.
"""

import json
import math
import os

_VARIABLE = "PORTAL_METRICS"  # path of the file, a line of JSON for each call


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
