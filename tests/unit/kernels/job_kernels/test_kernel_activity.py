"""Activity of a kernel in its own job: what the rules for idle GPUs hear of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from portal_session.job_kernels.job.kernel_activity import KernelActivity
from portal_session.job_kernels.wire.messages import DELIMITER

from portal.models.session.activity import SessionActivity


class Played:
    """The processes of the job and the clock, played."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.used: bool | None = None  # as at the first look
        self.roots: set[int] = set()

    def used_cpu(self, roots: Collection[int], now: float) -> bool | None:
        self.roots = set(roots)
        return self.used


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def activity(played: Played) -> KernelActivity:
    made = KernelActivity(played, lambda: played.now)  # type: ignore[arg-type]
    made.report()
    played.used = False
    return made


def message(kind: str) -> list[bytes]:
    return [b"client", DELIMITER, b"signature", b'{"msg_type": "%s"}' % kind.encode(), b"{}"]


def age(activity: KernelActivity) -> Any:
    """The age of the last activity, as the portal counts it; None: unknown."""
    return SessionActivity.model_validate(activity.report()).age


def test_a_kernel_that_does_nothing_is_idle_since_its_start(
    activity: KernelActivity, played: Played
) -> None:
    """An age that stays unknown would keep its GPUs for ever."""
    assert age(activity) == 0.0
    played.now += 90
    assert age(activity) == 90.0


def test_a_running_cell_is_activity_and_so_is_its_end(
    activity: KernelActivity, played: Played
) -> None:
    played.now += 50
    activity.asked(message("execute_request"))
    played.now += 500
    assert (age(activity), activity.report()["busy_kernels"]) == (0.0, 1)
    activity.answered(message("execute_reply"))
    played.now += 7
    assert (age(activity), activity.report()["busy_kernels"]) == (7.0, 0)
    activity.asked(message("complete_request"))
    activity.answered(message("complete_reply"))
    assert age(activity) == 7.0, "a completion is none"


def test_what_a_cell_left_running_is_activity(activity: KernelActivity, played: Played) -> None:
    activity.pid = 77
    played.now += 60
    played.used = True
    assert (age(activity), played.roots) == (0.0, {77})
    played.used, played.now = False, played.now + 30
    assert age(activity) == 30.0


def test_processes_that_cannot_be_read_are_unknown(
    activity: KernelActivity, played: Played
) -> None:
    played.used, played.now = None, played.now + 60
    assert age(activity) is None


def test_a_kernel_that_was_started_anew_runs_nothing(
    activity: KernelActivity, played: Played
) -> None:
    activity.asked(message("execute_request"))
    played.now += 10
    activity.forget()
    played.now += 5
    assert age(activity) == 5.0
