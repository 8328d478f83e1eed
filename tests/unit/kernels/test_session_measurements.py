"""What a notebook shows is told to the portal: the listening, and the sending."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from hub_client import wait_until
from portal_session import _jupyter_server_extension_points
from portal_session.measurements.measurements import MIME, MOST, MeasurementSender
from portal_session.notebooks.kernel_follower import KernelFollower
from portal_session.service import ServiceError

SHOWN = {"benchmark": "resnet50", "precision": "fp32", "gpus": 0, "images_per_second": 3.5}


class Service:
    """The portal's service, which refuses with these statuses first; it can be made to wait."""

    def __init__(self, *refusals: int) -> None:
        self.refusals = list(refusals)
        self.asked: list[Any] = []
        self.open = threading.Event()
        self.open.set()

    def ask(self, method: str, path: str, body: Any) -> dict[str, Any]:
        self.open.wait(10)
        self.asked.append((method, path, body))
        if self.refusals:
            raise ServiceError("Not now.", self.refusals.pop(0))
        return {}


def telling(service: Service) -> MeasurementSender:
    return MeasurementSender(service, logging.getLogger("server"), pause=0.0)


def sent(service: Service, count: int) -> list[Any]:
    wait_until("all is sent", lambda: len(service.asked) >= count)
    return service.asked


def test_what_is_shown_is_sent() -> None:
    service = Service()
    told = telling(service)
    told.take(SHOWN)
    told.take({**SHOWN, "precision": "bf16"})
    assert sent(service, 2) == [
        ("POST", "session/measurements", SHOWN),
        ("POST", "session/measurements", {**SHOWN, "precision": "bf16"}),
    ]
    wait_until("the thread is over", lambda: told._thread is None)
    told.take(SHOWN)
    assert len(sent(service, 3)) == 3


def test_it_is_sent_again_when_the_portal_is_away(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(503, 429)
    told = telling(service)
    told.take(SHOWN)
    sent(service, 3)
    wait_until("the thread is over", lambda: told._thread is None)
    assert len(service.asked) == 3 and not caplog.records


def test_a_refusal_is_written_down_and_the_next_one_sent(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(400)
    told = telling(service)
    told.take(SHOWN)
    told.take(SHOWN)
    sent(service, 2)
    wait_until("the thread is over", lambda: told._thread is None)
    assert len(service.asked) == 2
    assert "did not accept a measurement: Not now." in caplog.text


@pytest.mark.parametrize(
    "shown", [None, [], "x", {"a": float("nan")}, {"a": "x" * 5000}, {"a": {1, 2}}]
)
def test_what_is_no_measurement_is_not_sent(shown: Any) -> None:
    service = Service()
    told = telling(service)
    told.take(shown)
    told.take(SHOWN)
    assert sent(service, 1) == [("POST", "session/measurements", SHOWN)]


def test_a_loop_fills_no_memory() -> None:
    service = Service()
    service.open.clear()
    told = telling(service)
    for _ in range(1000):
        told.take(SHOWN)
    service.open.set()
    wait_until("the thread is over", lambda: told._thread is None)
    assert len(service.asked) <= MOST + 1


class Session:
    """jupyter_client's, which finds the message ready."""

    def feed_identities(self, parts: Any) -> tuple[Any, Any]:
        return None, parts

    def deserialize(self, message: Any) -> Any:
        return message


def test_the_kernels_broadcast_is_listened_to() -> None:
    seen: list[Any] = []
    follower = KernelFollower(None, lambda: None, seen.append)
    follower._session = Session()
    for kind, content in (
        ("display_data", {"data": {MIME: SHOWN, "text/plain": "told"}}),
        ("display_data", {"data": None}),
        ("stream", {"name": "stdout", "text": MIME}),
    ):
        follower._take({"msg_type": kind, "content": content, "parent_header": {}})  # type: ignore[arg-type]
    assert seen == [{MIME: SHOWN, "text/plain": "told"}]


def test_the_extension_comes_after_the_one_that_it_needs() -> None:
    names = [point["module"] for point in _jupyter_server_extension_points()]
    assert names.index("portal_session.notebooks.unattended") < names.index(
        "portal_session.measurements.measurements"
    )
