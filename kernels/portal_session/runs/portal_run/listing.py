"""Commands of ``portal-run`` about runs that there are: list, show, stop."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...job_kernels.broker_client import Broker
from .. import RunError
from ..own_runs import STATES, counts_of, named_run, runs_of
from ..plan import frozen_points
from ..search.repeated import frozen_search, parameters_before
from .text_table import aligned as _aligned
from .text_table import printable as _text

COMMANDS = ("list", "show", "stop")
_POINTS = 100  # that are shown


def run(argv: Sequence[str], broker: Broker) -> str:
    """Execute one of the COMMANDS; return what to print. Raises RunError, BrokerError."""
    command, *names = argv
    if command == "list":
        _none_of(names, "portal-run list")
        return _table(runs_of(broker))
    if command == "stop":
        if len(names) != 1:
            raise RunError("Name one run: portal-run stop NAME.")
        run_item = named_run(runs_of(broker), names[0])
        broker.ask("DELETE", f"/runs/{run_item['id']}")
        return f"The run '{run_item['name']}' is being stopped."
    options = argparse.ArgumentParser(prog="portal-run show", allow_abbrev=False)
    options.add_argument("name", help="name of the run, or its id")
    options.add_argument("--state", choices=STATES, help="only the points in this state")
    chosen = options.parse_args(names)
    return _shown(named_run(runs_of(broker), chosen.name), chosen.state or "", broker)


def _none_of(names: Sequence[str], command: str) -> None:
    if names:
        raise RunError(f"'{command}' takes no argument: remove '{names[0][:100]}'.")


def _table(runs: Sequence[Mapping[str, Any]]) -> str:
    if not runs:
        return "You have no runs."
    rows = [("NAME", "STATE", "POINTS", *(state.upper() for state in STATES), "SOURCE")]
    for run_item in runs:
        counts = counts_of(run_item)
        numbers = (str(counts[state]) for state in STATES)
        name, state, points = (_text(run_item, key) for key in ("name", "state", "points"))
        rows.append((name, state, points, *numbers, _text(run_item, "source")))
    return _aligned(rows)


def _shown(run_item: Mapping[str, Any], state: str, broker: Broker) -> str:
    query = f"?limit={_POINTS}" + (f"&state={state}" if state else "")
    answer = broker.ask("GET", f"/runs/{run_item['id']}/points{query}")
    items = [item for item in answer.get("items") or () if isinstance(item, dict)]
    details = broker.ask("GET", f"/runs/{run_item['id']}")
    message = _text(details, "message")
    counts = counts_of(run_item)
    lines = [
        f"Run '{_text(run_item, 'name')}' of {_text(run_item, 'source')}",
        f"Folder: {_text(run_item, 'folder')}",
        ", ".join(f"{counts[name]} {name}" for name in STATES if counts[name]) or "no points",
        *([message] if message else ()),
        *_search_lines(details.get("search")),
        "",
    ]
    folder = Path(str(run_item.get("folder") or ""))
    values, search = frozen_points(folder), frozen_search(folder)
    rows = [("POINT", "STATE", "CELL", "PARAMETERS", "METRICS", "MESSAGE")]
    for item in items:
        cell = f"{item['cell']} of {item.get('cells')}" if item.get("cell") else ""
        metrics = item.get("metrics")
        numbers = metrics.items() if isinstance(metrics, dict) else ()
        metrics_text = " ".join(
            f"{name}={value:.6g}" for name, value in numbers if _is_number(value)
        )
        number, now, message = (_text(item, key) for key in ("number", "state", "message"))
        point = values[int(number)] if number.isdecimal() and int(number) < len(values) else {}
        if search and number.isdecimal():
            point = {**point, **(parameters_before(folder, int(number), search) or {})}
        set_to = " ".join(f"{name}={json.dumps(value)}"[:40] for name, value in point.items())
        rows.append((number, now, cell, set_to, metrics_text, message))
    lines.append(_aligned(rows))
    total = answer.get("total")
    if isinstance(total, int) and total > len(items):
        lines.append(f"({len(items)} of {total:,} points)")
    return "\n".join(lines)


def _search_lines(search: Any) -> list[str]:
    """Return what a run's search has found so far; [] of a run without one."""
    if not isinstance(search, dict):
        return []
    metric, best = _text(search, "metric"), search.get("best")
    line = f"Search: {_text(search, 'direction')} {metric}"
    if not isinstance(best, dict) or not _is_number(best.get("value")):
        return [f"{line}; no point has a value yet"]
    values = best.get("parameters")
    pairs = values.items() if isinstance(values, dict) else ()
    chosen = " ".join(f"{name}={json.dumps(value)}"[:60] for name, value in pairs)
    return [line, f"Best:   point {_text(best, 'point')}, {metric}={best['value']:.6g}, {chosen}"]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
