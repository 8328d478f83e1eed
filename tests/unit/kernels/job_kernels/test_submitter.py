"""Jobs of kernels, requested before their relays are there."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.job_kernels import record as records
from portal_session.job_kernels.record import Record
from portal_session.job_kernels.submitter import Submitter
from portal_session.kernels.job_specs import BEGIN, METADATA, begin

ID, REQUEST = "11111111-aaaa", {"environment": "venv", "kernel": "python3", "gpus": 1}


class Kernels:
    """The session's kernels, and the portal: the requests that it was given."""

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []
        self.answers: dict[str, dict[str, Any]] = {}

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        assert (method, path) == ("POST", "session/kernels")
        assert records.ids() == [body["id"]], "the record comes first"
        self.begun.append(body)
        return {"id": body["id"]}

    def note(self, id: Any, state: str, message: str) -> None:
        self.answers[id] = {"state": state}


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernels:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ada/")
    return Kernels()


def manager_with(kernels: Kernels) -> Any:
    """The manager of one kernel, in a server with job kernels."""
    early = Submitter(kernels, time.monotonic).begin_early
    return SimpleNamespace(parent=SimpleNamespace(**{BEGIN: early}), kernel_name="job-venv")


def spec_with(**metadata: Any) -> Any:
    return SimpleNamespace(metadata=metadata)


async def test_the_job_of_a_new_kernel_is_requested_once(kernels: Kernels) -> None:
    manager, spec = manager_with(kernels), spec_with(**{METADATA: REQUEST})
    await begin(manager, spec, ID)
    await asyncio.sleep(0)
    assert kernels.begun == [{"id": ID, **REQUEST}]
    record = records.read(ID)
    assert (record.session, record.spec, record.port) == ("/user/ada/", "job-venv", 0)
    await begin(manager, spec, ID)  # restarted
    await asyncio.sleep(0)
    assert len(kernels.begun) == 1


async def test_a_kernel_that_has_a_job_keeps_it(kernels: Kernels) -> None:
    records.write(Record(ID, REQUEST, "key", "certificate", "private key", submitted=True))
    await begin(manager_with(kernels), spec_with(**{METADATA: REQUEST}), ID)
    assert kernels.begun == [] and records.read(ID).key == "key"


async def test_other_kernels_have_no_job(kernels: Kernels) -> None:
    await begin(manager_with(kernels), spec_with(), ID)
    await begin(SimpleNamespace(parent=None), spec_with(**{METADATA: REQUEST}), ID)
    assert kernels.begun == [] and records.ids() == []


async def test_without_a_record_there_is_no_job(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "a-file"))
    (tmp_path / "a-file").touch()
    await begin(manager_with(kernels), spec_with(**{METADATA: REQUEST}), ID)
    assert kernels.begun == []


async def test_server_and_relay_submit_one_job(kernels: Kernels) -> None:
    """Whoever asks first; a restarted kernel gets the next."""
    submitter = Submitter(kernels, time.monotonic)
    await submitter.begin_early(ID, REQUEST, "job-venv")
    body = {"id": ID, **REQUEST}
    assert submitter.begin(body) is submitter.begin(body) and submitter.submits(ID)
    assert await submitter.submit(body) == {"id": ID}
    assert kernels.begun == [body] and not submitter.submits(ID)
    assert await submitter.submit(body) == {"id": ID}
    assert kernels.begun == [body] * 2
