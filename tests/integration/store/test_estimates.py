"""Expected starts: recorded once, joined with when their sessions did start, and forgotten."""

from __future__ import annotations

import pytest
from session_records import recorded

from portal.errors import InvalidRequest
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store
from portal.store.sessions.estimates import Outcome

NOW = 1_800_000_000.0
OPTIONS = {"environment": "pytorch", "partition": "gpu", "gpus": 2}


def session(id: str, started_at: float | None, submitted_at: float = NOW) -> SessionRecord:
    return recorded(
        id=id,
        user="ada",
        options=OPTIONS,
        state=SessionState.RUNNING if started_at else SessionState.PENDING,
        submitted_at=submitted_at,
        started_at=started_at,
    )


async def test_outcomes_are_of_sessions_that_have_started(store: Store) -> None:
    await store.sessions.save(session("a", NOW + 90))
    await store.sessions.save(session("waits", None))
    await store.sessions.save(session("unknown", NOW + 5))
    await store.estimates.add_estimate("a", NOW, NOW + 60, "slurm")
    await store.estimates.add_estimate("a", NOW + 1, NOW + 600, "waits")  # the first word stays
    await store.estimates.add_estimate("waits", NOW, NOW + 60, "slurm")
    await store.estimates.add_estimate("unknown", NOW + 10, None, "unknown")
    await store.estimates.add_estimate("no-session", NOW, NOW, "slurm")
    assert await store.estimates.outcomes(NOW - 1) == [
        Outcome(OPTIONS, "unknown", NOW, None, NOW + 5),
        Outcome(OPTIONS, "slurm", NOW, NOW + 60, NOW + 90),
    ]
    assert len(await store.estimates.outcomes(NOW + 5)) == 1
    await store.estimates.prune(NOW + 5)
    assert len(await store.estimates.outcomes(0)) == 1
    with pytest.raises(InvalidRequest):
        await store.estimates.add_estimate("x", NOW, float("nan"), "slurm")


async def test_waits_of_sessions(store: Store) -> None:
    await store.sessions.save(session("old", NOW - 900, NOW - 1000))
    await store.sessions.save(session("a", NOW + 90))
    await store.sessions.save(session("clock", NOW - 2))  # Slurm's clock, and the Hub's
    await store.sessions.save(session("waits", None))
    assert sorted(wait for _, wait in await store.sessions.waits(NOW - 1)) == [0, 90]
    assert (await store.sessions.waits(0))[-1] == (OPTIONS, 100)
