"""Reports that the portal lacks, read from the folders of runs by a session of their user: the
session's part and the service's together, on real files."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from clusters import snapshot
from portal_session.runs import folders as noted
from portal_session.runs.unread import UnreadReports, run_of
from portal_session.service import ServiceError
from session_endpoints import of_server, parts_on, person, served
from session_records import recorded

from portal.assembly import Services
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.session import SessionState
from portal.store import Store
from portal.work.run.endpoints import folders, record, runs
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
OTHER = "6e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
TOKENS = {
    "session": of_server("ada"),
    "barbara": of_server("barbara"),
    "run": of_server("ada", "run-5e2f3c1a0b7d4c8e9a6f"),
    "ada": person("ada"),
}
NOW = time.time()


class Site:
    """The service's endpoints, and a home with runs. ``jobs``: what Slurm has."""

    def __init__(self, client: httpx.AsyncClient, parts: Services, home: Path) -> None:
        self.client, self.parts, self.store, self.home = client, parts, parts.store, home
        self.dashboard: Any = parts.dashboard

    async def ask(self, method: str, path: str, body: Any = None) -> Mapping[str, Any]:
        return await self.ask_as("session", method, path, body)

    async def ask_as(self, token: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        answer = await self.client.request(method, path, content=content, headers=headers)
        if not answer.is_success:
            raise ServiceError(answer.text, answer.status_code)
        return answer.json()

    @property
    def session(self) -> UnreadReports:
        return UnreadReports(self.ask, logging.getLogger("session"))

    def folder(self, id_: str = ID, name: str = "rates", points: int = 3, **more: Any) -> Path:
        """Write the folder of a run."""
        folder = self.home / "work/runs" / name
        folder.mkdir(parents=True)
        plan = {
            "id": id_,
            "name": name,
            "source": str(self.home / "work/train.py"),
            "environment": "lab",
            "created_at": "2026-05-01T10:00:00+00:00",
            "points": [{"lr": number} for number in range(points)],
        }
        (folder / "run.json").write_text(json.dumps({**plan, **more}))
        return folder

    def point(self, folder: Path, number: int, *lines: Any, id_: str = ID, **more: Any) -> Path:
        """Write the folder of a point with its metrics."""
        place = folder / f"{number:04d}"
        place.mkdir()
        manifest = {
            "run": {"id": id_},
            "attempt": 1,
            "parameters": {"lr": number},
            "slurm": {"job": f"12_{number}"},
            "environment": "lab",
            "state": "succeeded",
            "message": "",
            "started_at": "2026-05-01T10:00:00+00:00",
            "ended_at": "2026-05-01T10:05:00+00:00",
        }
        (place / "manifest.json").write_text(json.dumps({**manifest, **more}))
        if lines:
            (place / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return place

    async def add_run(self, folder: Path, **more: Any) -> Run:
        values = {"id": ID, "name": "rates", "source": "train.py", "folder": str(folder),
                  "points": 3, "user": "ada", "server": "run-5e2f3c1a0b7d4c8e9a6f",
                  "environment": "lab", "created_at": NOW - 500, "ended_at": NOW}  # fmt: skip
        run = Run(**{**values, **more})
        await self.store.table(RunTable).add_run(run)
        return run

    async def points(self, id_: str = ID) -> dict[int, RunPoint]:
        return await self.store.table(RunPointTable).of_whole_run("ada", id_)


@pytest.fixture
async def site(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    monkeypatch.setenv("HOME", str(tmp_path))
    records = [
        recorded(id=user, user=user, server="", job_id=job_id, submitted_at=NOW,
                      state=SessionState.RUNNING)
        for user, job_id in (("ada", "7"), ("barbara", "8"))
    ]  # fmt: skip
    await store.sessions.save(*records)
    sessions = {record.job_id: record for record in records}
    jobs = [Job(id=record.job_id, user=record.user, state=JobState.RUNNING) for record in records]
    view = SimpleNamespace(sessions=sessions, jobs={}, snapshot=snapshot(*jobs))

    async def refreshed() -> None:
        pass

    parts = parts_on(store, dashboard=SimpleNamespace(view=view, refreshed=refreshed))
    kinds = (*folders.ENDPOINTS, *record.ENDPOINTS, *runs.ENDPOINTS)
    async with served(kinds, parts, TOKENS.get, logins=True) as client:
        yield Site(client, parts, tmp_path)


async def ended_unheard(site: Site, *numbers: int, **more: Any) -> None:
    """Points whose ends the portal has from Slurm."""
    points = [
        RunPoint(
            number=n, state=PointState.SUCCEEDED, attempt=1, missing=True, ended_at=9.0, **more
        )
        for n in numbers
    ]
    await site.store.table(RunPointTable).save([(("ada", ID), point) for point in points])


async def test_metrics_that_the_portal_missed_are_read_by_the_next_session(site: Site) -> None:
    folder = site.folder()
    await site.add_run(folder)
    site.point(folder, 0, *({"step": step, "loss": 1 / (step + 1)} for step in range(10)))
    site.point(folder, 1, {"loss": 4.0}, state="failed", message="ValueError: x (exit code 1)")
    await ended_unheard(site, 0, metrics={"step": 0, "loss": 1.0})
    await ended_unheard(site, 1)
    shown = await site.ask_as("ada", "GET", f"runs/{ID}?metric=loss")
    assert shown["missing"] == 2 and shown["lowest"]["value"] == 1.0
    await site.session.send()
    points = await site.points()
    assert points[0].metrics == {"step": 9, "loss": 0.1} and points[0].parameters == {"lr": 0}
    assert (points[1].state, points[1].message) == ("failed", "ValueError: x (exit code 1)")
    shown = await site.ask_as("ada", "GET", f"runs/{ID}?metric=loss")
    assert shown["missing"] == 0 and shown["lowest"]["value"] == 0.1
    curves = await site.store.table(RunCurveTable).of_metric("ada", ID, "loss", [0])
    assert len(curves[0]) == 10


async def test_slurm_says_the_end_of_a_point_that_was_killed(site: Site) -> None:
    folder = site.folder()
    await site.add_run(folder)
    site.point(folder, 0, {"loss": 0.5}, state="running", ended_at=None)
    killed = {"message": "The node failed on gpu01."}
    await ended_unheard(site, 0, **killed)
    await site.session.send()
    point = (await site.points())[0]
    assert (point.message, point.metrics) == (killed["message"], {"loss": 0.5})
    assert not point.missing


async def test_what_has_no_folder_is_said_and_asked_once(site: Site) -> None:
    await site.add_run(site.folder())
    await ended_unheard(site, 2)
    await site.session.send()
    point = (await site.points())[2]
    assert "the folder of the run does not have them" in point.message and not point.missing


async def test_only_files_of_the_user_count(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Others may write into a shared folder: links, files of theirs, and what no run writes."""
    folder = site.folder()
    await site.add_run(folder)
    real = site.point(folder, 0, {"loss": 1e9})
    real.rename(tmp_path / "elsewhere")
    real.symlink_to(tmp_path / "elsewhere")
    site.point(folder, 1, {"loss": 0.5}, message="a\0b")
    site.point(folder, 2, {"loss": 0.5}, id_=OTHER)
    for number in range(3):  # each in a request of its own
        await ended_unheard(site, number)
        await site.session.send()
    assert all(point.metrics == {} for point in (await site.points()).values())
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert run_of(ID, folder) is None


async def test_reports_that_have_arrived_stay(site: Site) -> None:
    folder = site.folder()
    await site.add_run(folder)
    said = RunPoint(number=0, state=PointState.FAILED, attempt=1, metrics={"loss": 2.0})
    await site.store.table(RunPointTable).save([(("ada", ID), said)])
    body = {"run": ID, "points": [{"point": 0, "state": "succeeded", "metrics": {"loss": 0.0}}]}
    await site.ask("POST", "session/runs/unread", body)
    assert (await site.points())[0] == said
    for token in ("barbara", "run", "ada"):
        with pytest.raises(ServiceError) as refusal:
            await site.ask_as(token, "POST", "session/runs/unread", body)
        assert refusal.value.status in (403, 404, 503)


async def test_runs_that_an_older_database_lacks_are_restored(site: Site) -> None:
    folder = site.folder()
    site.point(folder, 0, {"loss": 0.25})
    site.point(folder, 1, state="running", ended_at=None)
    noted.note_folder(ID, folder)
    noted.note_folder(OTHER, site.folder(OTHER, "never"))  # no point of it was executed
    await site.session.restore()
    await site.session.send()
    run = await site.store.table(RunTable).get("ada", ID)
    assert run is not None and run.ended_at == 1_777_629_900.0  # of its manifest
    assert (run.name, run.folder, run.environment) == ("rates", str(folder), "lab")
    points = await site.points()
    assert [str(points[number].state) for number in range(3)] == ["succeeded", "lost", "lost"]
    assert points[0].metrics == {"loss": 0.25} and points[0].job == "12_0"
    assert points[1].message.startswith("The run was restored from its folder")
    assert await site.store.table(RunTable).get("ada", OTHER) is None
    assert await site.ask("POST", "session/runs/unknown", {"ids": [ID]}) == {"ids": []}


async def test_a_run_that_its_user_has_deleted_stays_deleted(site: Site) -> None:
    folder = site.folder()
    site.point(folder, 0)
    noted.note_folder(ID, folder)
    await site.add_run(folder)
    await site.ask_as("ada", "DELETE", f"runs/{ID}/record")
    await site.session.restore()
    assert await site.store.table(RunTable).get("ada", ID) is None


async def test_a_run_that_slurm_still_has_is_not_restored(site: Site) -> None:
    folder = site.folder()
    site.point(folder, 0)
    noted.note_folder(ID, folder)
    ghost = Job(id="9_1", user="ada", state=JobState.RUNNING,
                comment="portal:lab:run-5e2f3c1a0b7d4c8e9a6f")  # fmt: skip
    view = site.dashboard.view
    view.snapshot = snapshot(*view.snapshot.jobs.values(), ghost)
    assert await site.ask("POST", "session/runs/unknown", {"ids": [ID]}) == {"ids": []}
    with pytest.raises(ServiceError, match="not to be restored"):
        await site.ask("POST", "session/runs/restored", run_of(ID, folder))


def test_a_folder_that_is_gone_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "runs").mkdir()
    noted.note_folder(ID, tmp_path / "runs")
    noted.note_folder(OTHER, tmp_path / "gone")
    noted.note_folder("../outside", tmp_path / "runs")
    assert noted.noted_folders() == {ID: tmp_path / "runs"}
    assert [path.name for path in (tmp_path / noted.FOLDER).iterdir()] == [ID]
