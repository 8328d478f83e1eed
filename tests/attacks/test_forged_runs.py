"""Runs that are launched at the Hub past the service, with what only the portal says of a run: that
it repeats another user's, its version, its image, and which of its points have run."""

from __future__ import annotations

from typing import Any

import pytest
from unit.launch.test_launch_run import CLUSTER, ID, OPTIONS, RUN, hub

from portal.errors import NotAllowed, StoreUnavailable
from portal.launch.kinds.kind import LaunchFacts, Place
from portal.launch.request import Asked

ORIGIN = {"id": ID, "user": "grace", "folder": "/home/grace/runs/rates"}
FORGED: list[dict[str, Any]] = [
    {"origin": ORIGIN},
    {"digest": f"sha256:{'1' * 64}"},
    {"version": 3},
    {"attempt": 2},
    {"only": "1"},
]


async def placed(at: Any, **more: Any) -> Place:
    asked = Asked.parse({**OPTIONS, "run": {**RUN, **more}})
    return await asked.kind.place(asked, at, LaunchFacts(CLUSTER, None))


@pytest.mark.parametrize("forged", FORGED, ids=lambda forged: next(iter(forged)))
async def test_what_the_portal_has_not_recorded_is_refused(forged: dict[str, Any]) -> None:
    sentence = f"has not recorded this '{next(iter(forged))}' of the run"
    for at in (hub(), hub(record=RUN)):
        with pytest.raises(NotAllowed, match=sentence):
            await placed(at, **forged)
    with pytest.raises(StoreUnavailable):
        await placed(hub(record=StoreUnavailable("The database does not answer.")), **forged)


@pytest.mark.parametrize(
    "changed",
    [
        {"code_digest": f"sha256:{'2' * 64}"},
        {"folder": "/tmp/other"},
        {"points": 6},
        {"origin": None},
    ],
)
async def test_nor_may_a_recorded_run_be_launched_as_another(changed: dict[str, Any]) -> None:
    record = {**RUN, "code_digest": f"sha256:{'1' * 64}", "origin": ORIGIN}
    with pytest.raises(NotAllowed, match="has not recorded this"):
        await placed(hub(record=record), **{**record, **changed})


async def test_what_a_session_may_say_needs_no_record() -> None:
    digest = f"sha256:{'1' * 64}"
    for at in (hub(), hub(record=StoreUnavailable("The database does not answer."))):
        assert (await placed(at, code_digest=digest)).environments
    assert (await placed(hub(record={**RUN, "after": ID.replace("5", "6")}))).environments
