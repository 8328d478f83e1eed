"""Results of a benchmark, in the form that the portal's page Benchmarks takes; used by the scripts
beside it. Needs the standard library only, and works outside of a run too.

``results.json``, and in a run the table "benchmark NAME DIGEST" of its point, has a row for each
result:

| column | meaning |
|---|---|
| name | of what was measured, such as "training images" |
| value, unit | the result: a positive number, and a unit such as "images/s" |
| gpus | number of GPUs that did the work, 0: CPUs; null: neither, such as a file system |
| conditions | text such as "precision=fp16, batch=128" |
| peak | number of the data sheet to compare with (fp32, fp16, int8, bandwidth, …); "" for none |
| operations | operations for each unit of ``value``, such as FLOP of an image; 0 without ``peak`` |
| spread | standard error of ``value``, as a part of it: 0.02 is 2 %; 0: it was not repeated |

``DIGEST`` has 16 digits of the SHA-256 of the script and of this module, as they were executed: the
portal takes results of shipped scripts only. GPU type, node and version come from Slurm and the
catalog, not from here.
"""

import hashlib
import json
import math
import os
import statistics
import sys
from pathlib import Path

COLUMNS = ("name", "value", "unit", "gpus", "conditions", "peak", "operations", "spread")
_METRICS = 50  # names that a run's page shows
_LONGEST = 200  # characters of a cell


def result(name, value, unit, gpus, peak="", operations=0, repeats=(), **conditions):
    """Return a row of the table. ``repeats``: measurements of which ``value`` is the median."""
    text = ", ".join(f"{key}={text}" for key, text in conditions.items())
    if len(text) > _LONGEST:
        raise ValueError(f"The conditions of '{name}' are longer than {_LONGEST} characters.")
    row = (name, value, unit, gpus, text, peak, operations, error_of_median(repeats))
    return dict(zip(COLUMNS, row))  # noqa: B905


def error_of_median(repeats):
    """Return the standard error of the median of normally distributed ``repeats``, as a part of it;
    0 for fewer than two. It follows from the median distance, which single outliers do not move."""
    if len(repeats) < 2:
        return 0.0
    middle = statistics.median(repeats)
    distance = statistics.median(abs(value - middle) for value in repeats)
    return 1.2533 * 1.4826 * distance / middle / math.sqrt(len(repeats))


def publish(benchmark, script, results):
    """Write ``results.json``, print the results and, in a run, log them. ``script``: the caller's
    ``__file__``."""
    digest = digest_of(script)
    name = f"benchmark {benchmark} {digest[:16]}"
    written = {"benchmark": benchmark, "script": f"sha256:{digest}", "results": results}
    folder = Path(os.environ.get("PORTAL_METRICS", "results.json")).parent
    for row in results:
        print(f"{row['name']:24} {row['value']:14.6g} {row['unit']:10} {row['conditions']}")
    try:
        (folder / "results.json").write_text(json.dumps(written, indent=1) + "\n")
    except OSError as error:
        stop(f"{folder}/results.json cannot be written: {error.strerror}. The results are above.")
    try:
        from portal_metrics import log, log_table
    except ImportError:  # outside of the portal
        return
    log_table(name, [COLUMNS, *([row[column] for column in COLUMNS] for row in results)])
    metrics = {f"{row['name']} ({row['conditions']})"[:100]: row["value"] for row in results}
    log(**dict(list(metrics.items())[:_METRICS]))


def digest_of(script):
    """Return the SHA-256 of a script and of this module, in hexadecimal digits. In a run, it is
    that of the frozen copies that are executed."""
    loader = globals().get("__loader__")
    own = loader.get_data(__file__) if loader else Path(__file__).read_bytes()
    executed = os.environ.get("PORTAL_FROZEN_SOURCE") or script
    return hashlib.sha256(Path(executed).read_bytes() + own).hexdigest()


def stop(sentence):
    """End the script with a sentence about what is wrong and what to do."""
    print(sentence, file=sys.stderr)
    raise SystemExit(1)
