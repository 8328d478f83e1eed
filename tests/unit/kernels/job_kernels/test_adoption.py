"""What a session's new server does with the kernels of a former one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.job_kernels import record as records
from portal_session.job_kernels.adoption import Adoption
from portal_session.job_kernels.record import Record

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


class Sessions:
    """The notebooks of the new server that have a kernel."""

    def __init__(self) -> None:
        self.saved: dict[str, dict[str, str]] = {}

    async def save_session(self, id: str, **fields: str) -> None:
        self.saved[id] = fields

    async def list_sessions(self) -> list[dict[str, Any]]:
        return [
            {"id": id, "path": fields["path"], "kernel": {"id": fields["kernel_id"]}}
            for id, fields in self.saved.items()
        ]


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
    app = SimpleNamespace(
        kernel_manager=manager, portal_unattended=SimpleNamespace(follow=followed.append)
    )
    adoption = Adoption(app, kernels)  # type: ignore[arg-type]
    await adoption._adopt()
    assert manager.started == {NOTEBOOKS: "job-venv-python3"}
    assert followed == [NOTEBOOKS], "its outputs go on into the notebook"
    assert kernels.stopped == [WARM]
    assert records.ids() == [NOTEBOOKS]


async def test_a_notebook_has_its_kernel_under_the_id_that_its_page_knows(home: Path) -> None:
    manager, sessions = Manager(), Sessions()
    manager.started[NOTEBOOKS] = "job-venv-python3"
    sessions.saved["of-a-page"] = {"path": "work/a.ipynb", "kernel_id": NOTEBOOKS}
    app = SimpleNamespace(kernel_manager=manager, session_manager=sessions)
    await Adoption(app, Kernels())._look()  # type: ignore[arg-type]
    following = SimpleNamespace(kernel_manager=Manager(), session_manager=Sessions())
    await Adoption(following, Kernels())._adopt()  # type: ignore[arg-type]
    assert following.session_manager.saved == {
        "of-a-page": {
            "path": "work/a.ipynb",
            "name": "a.ipynb",
            "type": "notebook",
            "kernel_id": NOTEBOOKS,
        }
    }
