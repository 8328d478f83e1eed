"""Runs of this user, as the portal lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import RunError

STATES = ("waiting", "running", "succeeded", "failed", "lost")


def runs_of(portal: Any) -> list[dict[str, Any]]:
    """Return the user's runs, the newest first."""
    items = portal.ask("GET", "/runs").get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def named_run(runs: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the run with this name or id: of several, one that has not ended, else the newest.
    Raises RunError."""
    matches = [run for run in runs if name in (run.get("name"), run.get("id"))]
    matches.sort(key=lambda run: run.get("ended_at") is not None)  # stable: the newest stays first
    if not matches:
        raise RunError(f"You have no run '{name[:100]}'. See the page Runs, or 'portal-run list'.")
    return matches[0]


def unfinished(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs that have not ended, each with its number of ``points``, how many of these
    have ``ended``, and how many of those ``failed``."""
    items = []
    for run in runs:
        if run.get("ended_at") is None:
            counts = counts_of(run)
            failed = counts["failed"] + counts["lost"]
            numbers = {"ended": counts["succeeded"] + failed, "failed": failed}
            items.append({**{key: run.get(key) for key in ("id", "name", "points")}, **numbers})
    return items


def counts_of(run_item: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of a run's points by their STATES."""
    counts = run_item.get("counts")
    counts = counts if isinstance(counts, dict) else {}
    return {state: int(counts.get(state) or 0) for state in STATES}
