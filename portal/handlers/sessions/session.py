"""``api/v1/session``: what a session's own server asks and reports, with its own token."""

from __future__ import annotations

import time

from portal.models.session.startup import StartupReport, Step
from portal.models.situation import Situation

from ..base.endpoint import Operation
from ..base.own_session import OwnSession


class OneOwnSession(OwnSession):
    """Session that asks."""

    path = "session"

    @Operation("Status of the calling session: its time, its GPUs, the allowed actions.")
    async def on_get(self) -> Situation:
        """Use the session's own token only.

        While Slurm or the database is down, the answer has the last known state, and 'error' says
        so.
        """
        record, job = await self.own()
        return await self.parts.situations.status_of(record, job, self.view)


class OwnStartup(OwnSession):
    """Durations of the steps of a session's start."""

    path = "session/startup"

    @Operation(
        "Report the duration of the startup steps of the calling session.", body=StartupReport
    )
    async def on_post(self) -> None:
        """Use the session's own token only.

        A report is added to earlier ones; of "page" the first value stays, since a page that is
        loaded again has most of it already.
        """
        record = await self.own_record()  # a page is there before the next poll of Slurm
        steps = {str(step): seconds for step, seconds in self.body.steps.items()}
        await self.parts.store.startups.add_steps(record.id, steps, time.time(), {str(Step.PAGE)})


ENDPOINTS = (OneOwnSession, OwnStartup)
