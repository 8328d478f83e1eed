"""Submission of a kernel's job before the relay's process has loaded the rest."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from portal_session.job_kernels import record as records
from portal_session.job_kernels import submission
from portal_session.job_kernels.broker_client import BrokerError
from portal_session.job_kernels.record import Record

ID = "0123abcd-0000-4000-8000-0123456789ab"
REQUEST = {"environment": "python", "kernel": "python3"}


class Broker:
    """The session's broker, played: it notes what it is asked, and refuses with ``error``."""

    asked: list[tuple[str, str, Any]] = []
    error: BrokerError | None = None

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.asked.append((method, path, body))
        if self.error is not None:
            raise self.error
        return {}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Broker]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ada/")
    monkeypatch.setenv("PORTAL_JOB_ID", "12")
    monkeypatch.setattr(Broker, "asked", [])
    monkeypatch.setattr(Broker, "error", None)
    monkeypatch.setattr(submission, "Broker", Broker)
    return Broker


@pytest.fixture(autouse=True)
def unblocked() -> Iterator[None]:
    yield
    signal.pthread_sigmask(signal.SIG_UNBLOCK, submission.HELD)


def test_a_new_kernel_has_a_record_without_address_and_is_requested(broker: type[Broker]) -> None:
    submitted = submission.submit(ID, REQUEST, "job-python")
    assert submitted is not None
    submitted.wait()
    assert broker.asked == [("POST", "/kernels", {"id": ID, **REQUEST})]
    record = records.read(ID)
    assert (record.port, record.key, record.submitted) == (0, "", False)
    assert (record.session, record.spec, record.request) == ("/user/ada/", "job-python", REQUEST)
    assert record.relay == records.relay_here()


def test_signals_wait_for_the_relay_once_a_job_may_be_there(broker: type[Broker]) -> None:
    submission.submit(ID, REQUEST, "job-python")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= set(submission.HELD)


def test_a_kernel_with_a_record_is_left_to_its_relay(broker: type[Broker]) -> None:
    records.write(Record(ID, REQUEST, "key", "cert", "private", port=4000, submitted=True))
    assert submission.submit(ID, REQUEST, "job-python") is None
    assert broker.asked == []
    assert records.read(ID).port == 4000
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(submission.HELD)


def test_nothing_is_requested_without_a_record(broker: type[Broker], tmp_path: Path) -> None:
    (tmp_path / ".portal").write_text("in its place")
    assert submission.submit(ID, REQUEST, "job-python") is None
    assert broker.asked == []


def test_a_refusal_is_raised_to_whoever_waits(
    broker: type[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "error", BrokerError("You may use at most 2 GPUs.", 403))
    submitted = submission.submit(ID, REQUEST, "job-python")
    assert submitted is not None
    with pytest.raises(BrokerError, match="at most 2 GPUs") as error:
        submitted.wait()
    assert error.value.status == 403
