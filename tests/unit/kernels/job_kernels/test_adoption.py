"""What a session's new server does with the kernels of a former one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.job_kernels import record as records
from portal_session.job_kernels.adoption import Adoption
from portal_session.job_kernels.record import Record
from portal_session.notebooks import awaited_notebooks
from portal_session.notebooks.awaited_notebooks import AwaitedNotebooks

NOTEBOOKS, WARM = "11111111-aaaa", "22222222-bbbb"


class Manager:
    """The kernels of the new server."""

    def __init__(self) -> None:
        self.started: dict[str, str] = {}

    def __contains__(self, id: str) -> bool:
        return id in self.started

    async def start_kernel(self, kernel_name: str, kernel_id: str, path: str | None) -> None:
        self.started[kernel_id] = kernel_name


class Kernels:
    """The portal: both jobs run."""

    def __init__(self) -> None:
        self.stopped: list[str] = []

    async def status(self, id: str) -> dict[str, Any]:
        return {"state": "running"}

    async def stop(self, id: str) -> dict[str, Any]:
        self.stopped.append(id)
        return {}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the records of a notebook's kernel and of a warm one of ``%%gpu``."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ada/")
    for id, spec in ((NOTEBOOKS, "job-venv-python3"), (WARM, "")):
        record = Record(id, {}, "key", "certificate", "private key", spec=spec, submitted=True)
        records.write(record.but(session="/user/ada/", relay="7:1"))
    return tmp_path


async def test_a_warm_kernel_is_not_taken_up(home: Path) -> None:
    manager, kernels = Manager(), Kernels()
    followed: list[str] = []
    unattended = SimpleNamespace(follow=followed.append, awaited=AwaitedNotebooks())
    app = SimpleNamespace(kernel_manager=manager, portal_unattended=unattended)
    adoption = Adoption(app, kernels)  # type: ignore[arg-type]
    await adoption._adopt()
    assert manager.started == {NOTEBOOKS: "job-venv-python3"}
    assert followed == [NOTEBOOKS], "its outputs go on into the notebook"
    assert kernels.stopped == [WARM]
    assert records.ids() == [NOTEBOOKS]


async def test_a_job_whose_relay_never_came_is_ended(home: Path) -> None:
    for id in records.ids():
        records.write(records.read(id).but(submitted=False, spec="job-venv-python3"))
    kernels = Kernels()
    unattended = SimpleNamespace(awaited=AwaitedNotebooks())
    app = SimpleNamespace(kernel_manager=Manager(), portal_unattended=unattended)
    await Adoption(app, kernels)._adopt()  # type: ignore[arg-type]
    assert kernels.stopped == [NOTEBOOKS, WARM]
    assert records.ids() == []


class Portal(Kernels):
    """The portal: all jobs have ended."""

    async def status(self, id: str) -> dict[str, Any]:
        return {"state": "ended"}


async def test_who_opens_its_notebook_waits_until_it_is_clear_what_becomes_of_it(
    home: Path, tmp_path: Path
) -> None:
    records.note(NOTEBOOKS, "notes/a.ipynb")
    awaited = AwaitedNotebooks()
    app = SimpleNamespace(
        kernel_manager=Manager(), portal_unattended=SimpleNamespace(awaited=awaited)
    )
    adoption = Adoption(app, Portal())  # type: ignore[arg-type]
    await adoption.expect()
    opening = asyncio.ensure_future(awaited.wait("/notes/a.ipynb"))
    await awaited.wait("notes/b.ipynb")
    assert not opening.done()
    await adoption._adopt()  # the job has ended: there is nothing to wait for
    await asyncio.wait_for(opening, 1)


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited_notebooks, "LONGEST", 0.05)
    awaited = AwaitedNotebooks()
    awaited.expect("a.ipynb")
    await asyncio.wait_for(awaited.wait("a.ipynb"), 1)
    await asyncio.sleep(0.1)
    assert awaited._events == {}
