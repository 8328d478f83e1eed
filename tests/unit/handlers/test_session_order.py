"""Which of two sessions of one server the Hub has, when the clock was set between them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from portal.errors import StoreUnavailable
from portal.handlers.action import SessionAction
from portal.models.session import SessionRecord

STEPS = pytest.mark.parametrize("step", [3600.0, 0.0, -3600.0])


def record(job_id: str, at: float = 0.0, server: str = "") -> SessionRecord:
    words = {"user": "ada", "server": server, "submitted_at": at}
    return SessionRecord(id=f"S{job_id}", job_id=job_id, **words)


def test_jobs_stand_in_slurms_order() -> None:
    ids = ["", "9", "10", "99", "100", "1000001"]
    assert sorted([record(id) for id in reversed(ids)], key=lambda one: one.order) == [
        record(id) for id in ids
    ]


@STEPS
@pytest.mark.parametrize("away", [False, True])
async def test_the_later_one_is_stopped_through_the_hub_and_the_other_by_its_job(
    step: float, away: bool
) -> None:
    before, after = record("99"), record("100", 60.0 + step)
    other = record("101", 120.0, server="another")

    async def find(**_: Any) -> tuple[list[SessionRecord], int]:
        if away:
            raise StoreUnavailable("The database does not answer.")
        return [before, after, other], 3

    view = SimpleNamespace(sessions={one.job_id: one for one in (before, after, other)})
    parts = SimpleNamespace(store=SimpleNamespace(sessions=SimpleNamespace(find=find)))
    asked: Any = SimpleNamespace(parts=parts, view=view)
    assert await SessionAction._is_newest(asked, after)
    assert not await SessionAction._is_newest(asked, before)
    assert await SessionAction._is_newest(asked, other)
