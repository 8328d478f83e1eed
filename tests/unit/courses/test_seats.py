"""Which ends of a session let its seat be started again: those of jobs that are surely gone."""

from __future__ import annotations

import pytest
from session_records import recorded

from portal.courses.start.seats import lost
from portal.models.course.start import Seat, SeatState
from portal.models.session.session import SessionRecord, SessionState
from portal.sessions.ending import TITLES

AGAIN = (SeatState.STARTING, SeatState.READY)


def record(state: SessionState, code: str = "") -> SessionRecord:
    return recorded(
        id="s", user="ada", server="course-deep", submitted_at=0, state=state, ending_code=code
    )


@pytest.mark.parametrize("code", TITLES)
@pytest.mark.parametrize("state", SeatState)
def test_only_a_job_that_slurm_has_forgotten_is_started_again(state: SeatState, code: str) -> None:
    seat = Seat(start_id=1, person="ada", state=state)
    again = lost(seat, record(SessionState.ENDED, code))
    assert again == (code == "unknown" and state in AGAIN)


@pytest.mark.parametrize("state", [one for one in SessionState if one is not SessionState.ENDED])
def test_what_lives_is_not_lost(state: SessionState) -> None:
    seat = Seat(start_id=1, person="ada", state=SeatState.STARTING)
    assert not lost(seat, record(state, "unknown"))
    assert not lost(seat, None)
