"""Reports that the portal lacks, from the folders of this user's runs: the last ones of points that
ended while it was away, and whole runs that an older copy of its database does not have. The portal
cannot read users' files, so their sessions do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Callable

from ..service import ServiceError
from ..situation import in_thread
from .disk import read_regular
from .execution.metrics import FILE as METRICS
from .execution.metrics import Metrics
from .execution.shown_values import shown_values
from .execution.task import manifest_of, point_folders
from .folders import is_own, noted_folders
from .plan import FILE as PLAN

UNREAD, UNKNOWN, RESTORED = (f"session/runs/{name}" for name in ("unread", "unknown", "restored"))
_EVERY = 300.0  # seconds between two questions for points
_MOST_POINTS = 20  # in one request
_LARGEST = 500_000  # bytes of a request
_MOST_IDS = 500
_LARGEST_PLAN = 128 * 1024 * 1024  # bytes of run.json
_LONGEST = 2_000  # characters of a message
_MOST_DRIFT = 30

Ask = Callable[..., Awaitable[Mapping[str, Any]]]


class UnreadReports:
    """Task of a session's server that sends them. ``ask`` sends a method, a path and a body to the
    service."""

    def __init__(self, ask: Ask, log: Any) -> None:
        self._ask, self._log = ask, log
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Send what is missing now, and then now and again. Must be called in the event loop."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._follow())

    def end(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()

    async def _follow(self) -> None:
        restored = False
        while True:
            try:
                if not restored:
                    await self.restore()
                    restored = True
                await self.send()
            except ServiceError as error:
                if error.status == 403:  # no runs in such a session
                    return
            except Exception:  # a folder as no run has it: the others are tried again later
                self._log.exception("Reports of runs cannot be read")
            await asyncio.sleep(_EVERY)

    async def restore(self) -> None:
        """Have the portal restore the runs that it does not know. Raises ServiceError."""
        folders = await in_thread(noted_folders)
        ids = list(folders)
        for at in range(0, len(ids), _MOST_IDS):
            answer = await self._ask("POST", UNKNOWN, {"ids": ids[at : at + _MOST_IDS]})
            for id in answer.get("ids", ()):
                run = await in_thread(run_of, str(id), folders[str(id)])
                if run is not None:
                    # One that cannot be restored is none of the others' concern.
                    with suppress(ServiceError):
                        await self._ask("POST", RESTORED, run)

    async def send(self) -> None:
        """Send the points that the portal misses. Raises ServiceError."""
        before: Any = None
        while True:
            items = (await self._ask("GET", UNREAD)).get("items") or []
            if not items or items == before:
                return
            before = items
            for run in items:
                id, folder = str(run["id"]), Path(str(run["folder"]))
                for part in _parts(await in_thread(points_of, id, folder, run["points"])):
                    await self._send(id, part)

    async def _send(self, id: str, points: list[dict[str, Any]]) -> None:
        try:
            await self._ask("POST", UNREAD, {"run": id, "points": points})
        except ServiceError as error:
            if error.status != 400:
                raise
            # Somebody has changed these files: they say nothing that the portal takes.
            unread = [{"point": point["point"], "read": False} for point in points]
            await self._ask("POST", UNREAD, {"run": id, "points": unread})


def _parts(points: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield points in requests that are small enough."""
    part: list[dict[str, Any]] = []
    size = 0
    for point in points:
        length = len(json.dumps(point))
        if part and (len(part) == _MOST_POINTS or size + length > _LARGEST):
            yield part
            part, size = [], 0
        part.append(point)
        size += length
    if part:
        yield part


def points_of(id: str, folder: Path, numbers: Iterable[int]) -> list[dict[str, Any]]:
    """Return points of the run with this id as their newest folders have them. Only files of this
    user count: others may write into a shared folder. Blocks."""
    objective = _objective(folder)
    return [_point_of(id, folder, number, objective) for number in numbers]


def _point_of(id: str, folder: Path, number: int, objective: str) -> dict[str, Any]:
    for place in point_folders(folder, number):
        if not (is_own(place) and is_own(place / "manifest.json")):
            continue
        manifest = manifest_of(place, own=True)
        run = manifest.get("run")
        if not isinstance(run, dict) or run.get("id") != id:
            continue
        report = _report(manifest)
        if is_own(place / METRICS):
            metrics = Metrics(place / METRICS, objective)
            report["metrics"] = metrics.newest()
            report["curves"] = metrics.curves(newest=True)
        return {"point": number, **report}
    return {"point": number, "read": False}


def _report(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a manifest says, as a report has it."""
    parameters, slurm = manifest.get("parameters"), manifest.get("slurm")
    drift = manifest.get("drift")
    ended = manifest.get("state") in ("succeeded", "failed")
    report: dict[str, Any] = {
        "state": manifest["state"] if ended else "running",
        "attempt": _whole(manifest.get("attempt")) or 1,
        "cell": _whole(manifest.get("cell")),
        "cells": _whole(manifest.get("cells")),
        "message": str(manifest.get("message") or "")[:_LONGEST] if ended else "",
        "parameters": shown_values(parameters) if isinstance(parameters, dict) else {},
        "drift": [str(text) for text in drift][:_MOST_DRIFT] if isinstance(drift, list) else [],
        "job": str(slurm.get("job") or "") if isinstance(slurm, dict) else "",
        "started_at": _seconds(manifest.get("started_at")),
        "ended_at": _seconds(manifest.get("ended_at")),
    }
    return {name: value for name, value in report.items() if value is not None}


def run_of(id: str, folder: Path) -> dict[str, Any] | None:
    """Return the run in a folder; None if it is not this user's, or none of its points was
    executed. Blocks."""
    path = folder / PLAN
    if not (is_own(folder) and is_own(path)):
        return None
    try:
        plan = json.loads(read_regular(path, _LARGEST_PLAN, own=True))
        points, name = len(plan["points"]), str(plan["name"])
        created, source = _seconds(plan.get("created_at")), str(plan["source"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    manifests = [
        manifest
        for number in range(points)
        for place in point_folders(folder, number)[:1]
        if is_own(place) and (manifest := manifest_of(place, own=True))
    ]
    if plan.get("id") != id or not manifests:
        return None
    environments = [str(manifest.get("environment") or "") for manifest in manifests]
    times = [_seconds(manifest.get("ended_at")) for manifest in manifests]
    created = created or path.lstat().st_mtime
    return {
        "id": id,
        "name": name,
        "source": source,
        "folder": str(folder),
        "points": points,
        "environment": str(plan.get("environment") or environments[0]),
        "created_at": created,
        "ended_at": max([created, *(time for time in times if time is not None)]),
    }


def _objective(folder: Path) -> str:
    """Return the metric of a run whose parameters are searched; "" of others."""
    try:
        search = json.loads(read_regular(folder / PLAN, _LARGEST_PLAN, own=True)).get("search")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return str(search.get("metric") or "") if isinstance(search, dict) else ""


def _whole(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if whole else None


def _seconds(text: Any) -> float | None:
    """Return a manifest's time as Unix seconds; None for what is none."""
    with suppress(TypeError, ValueError):
        return datetime.fromisoformat(text).timestamp()
    return None
