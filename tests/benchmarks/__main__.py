"""``python -m tests.benchmarks [--only PART,…] [--readme]``, as root.

Prints a table and writes build/bench.json. ``--only`` measures the given parts and keeps the other
rows; ``--readme`` also updates the tables: all rows in docs/reference/benchmarks.md, those of
``HEADLINES`` with a goal in README.md (with ``--only=`` nothing is measured).
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable

from . import (
    builds,
    class_lab,
    class_start,
    container,
    course_board,
    dask_long,
    dask_workers,
    endpoint_wake,
    endpoints,
    estimates,
    gpu_cells,
    home,
    images,
    job_kernels,
    lab,
    launch_page,
    launch_visits,
    line,
    page,
    pages,
    paint,
    patches,
    pending,
    projects,
    report,
    run_points,
    runs,
    scale,
    service,
    sessions,
    soak,
    startup,
    train,
    uploads,
)
from .cluster import ROOT, Cluster, NotMeasured, started
from .report import Row

PARTS: dict[str, Callable[[Cluster], list[Row]]] = {
    "lab": lab.measure,  # those of _OWN_HUB come first
    "paint": paint.measure,
    "line": line.measure,
    "launch": launch_page.measure,
    "pages": pages.measure,
    "images": images.measure,
    "builds": builds.measure,
    "job-kernels": job_kernels.measure,
    "run-points": run_points.measure,
    "class-lab": class_lab.measure,
    "gpu-cells": gpu_cells.measure,
    "dask": dask_workers.measure,
    "train": train.measure,
    "dask-long": dask_long.measure,
    "wake": endpoint_wake.measure,
    "visits": launch_visits.measure,
    "startup": startup.measure,
    "pending": pending.measure,
    "class": class_start.measure,
    "patches": patches.measure,
    "soak": soak.measure,
    "estimates": estimates.measure,  # last: it leaves ten thousand jobs' traces in Slurm
}
# These need no demo.
ALONE: dict[str, Callable[[], list[Row]]] = {
    "scale": scale.measure,
    "service": service.measure,
    "page": page.measure,
    "sessions": sessions.measure,
    "board": course_board.measure,
    "runs": runs.measure,
    "home": home.measure,
    "container": container.measure,
    "endpoints": endpoints.measure,
    "projects": projects.measure,
    "uploads": uploads.measure,
}
ORDER = (
    "visits",
    "startup",
    "pending",
    "lab",
    "paint",
    "line",
    "launch",
    "pages",
    "images",
    "builds",
    "job-kernels",
    "run-points",
    "class",
    "class-lab",
    "gpu-cells",
    "dask",
    "train",
    "dask-long",
    "wake",
    "patches",
    "soak",
    "estimates",
    *ALONE,
)
# These use the demo's Hub; the others measure separate Hubs.
_OWN_HUB = (
    *(
        "lab",
        "paint",
        "line",
        "launch",
        "pages",
        "images",
        "builds",
        "job-kernels",
        "run-points",
        "class-lab",
        "gpu-cells",
        "dask",
        "train",
        "dask-long",
        "wake",
    ),
)
COMPLETE = "docs/reference/benchmarks.md"
HEADLINES = (
    "visits",
    "startup",
    "pending",
    "lab",
    "line",
    "job-kernels",
    "run-points",
    "class",
    "class-lab",
)
_ROWS = {
    "lab": (lab.WHAT,),
    "paint": (paint.WHAT,),
    "line": tuple(f"{line.WHAT}: {words}" for words, _ in line.VISITS.values()),
    "launch": (launch_page.WHAT,),
    "pages": (pages.WHAT,),
    "images": images.WHAT,
    "builds": (builds.WHAT,),
    "job-kernels": (job_kernels.WHAT,),
    "run-points": (run_points.WHAT,),
    "visits": (launch_visits.WHAT,),
    "startup": ("100 sessions", "Memory of the Hub"),
    "pending": ("60 pending",),
    "class": (class_start.WHAT,),
    "class-lab": class_lab.WHAT,
    "gpu-cells": (gpu_cells.WHAT,),
    "dask": (dask_workers.WHAT,),
    "train": (train.WHAT,),
    "dask-long": (dask_long.WHAT,),
    "wake": (endpoint_wake.WHAT,),
    "patches": (patches.WHAT,),
    "soak": ("soak of",),
    "board": (course_board.WHAT,),
    "estimates": (estimates.WHAT,),
    "scale": tuple(f"{nodes} synthetic nodes, {8 * nodes} GPUs" for nodes in scale.SIZES),
    "service": (service.WHAT,),
    "page": (page.WHAT,),
    "sessions": (sessions.WHAT,),
    "runs": (runs.WHAT,),
    "home": (home.WHAT,),
    "container": (container.WHAT,),
    "endpoints": (endpoints.WHAT,),
    "uploads": (uploads.WHAT,),
    "projects": (projects.WHAT,),
}


def main() -> int:
    """Measure, print and write; return 1 if a figure is missing or a goal was not reached."""
    parser = argparse.ArgumentParser(prog="make bench", description="What the portal costs.")
    parser.add_argument("--only", default=",".join(ORDER), help="parts, separated by commas")
    parser.add_argument("--readme", action="store_true", help="update the tables in the documents")
    args = parser.parse_args()
    wanted = [name for name in (*PARTS, *ALONE) if name in args.only.split(",")]
    file = ROOT / "build" / "bench.json"
    rows = {name: _kept(name, report.read(file)) for name in ORDER}
    if wanted:
        rows |= _measure(wanted)
    result = [row for name in ORDER for row in rows[name]]
    if wanted:
        report.write(result, file)
    print("\n" + report.table(result) + f"\n\nMachine: {report.this_machine()}. Written: {file}")
    if args.readme:
        headlines = [row for name in HEADLINES for row in rows[name] if row.goal]
        for document, shown in (("README.md", headlines), (COMPLETE, result)):
            if not report.put_into_document(shown, ROOT / document):
                print(f"{document} has no place for the table.", file=sys.stderr)
                return 1
    return int(any(row.value is None or row.met is False for row in result))


def _kept(part: str, rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.name.startswith(_ROWS[part])]


def _measure(wanted: list[str]) -> dict[str, list[Row]]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all processes are ended
    rows: dict[str, list[Row]] = {}
    began = time.monotonic()

    def measured(name: str, measure: Callable[[], list[Row]]) -> None:
        print(f"\n{name} ({time.monotonic() - began:.0f} s)", flush=True)
        try:
            rows[name] = measure()
        except NotMeasured as error:
            rows[name] = _missing(name, str(error))

    on_demo = [name for name in wanted if name in PARTS]
    try:
        if on_demo:
            own_hub = [name for name in on_demo if name in _OWN_HUB]
            with started(only_slurm=not own_hub) as cluster:
                for name in on_demo:
                    if own_hub and name not in own_hub:
                        for piece in ("hub", "proxy", "slapd"):
                            cluster.running.control("stop", piece)
                        own_hub = []
                    measured(name, lambda name=name: PARTS[name](cluster))  # type: ignore[misc]
    except NotMeasured as error:
        rows = {name: _missing(name, str(error)) for name in on_demo} | rows
    for name in wanted:
        if name in ALONE:
            measured(name, ALONE[name])
    return rows


def _missing(part: str, reason: str) -> list[Row]:
    return [Row(name, None, "", reason=reason) for name in _ROWS[part]]


if __name__ == "__main__":
    sys.exit(main())
