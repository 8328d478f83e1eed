"""Runs that start after others: what they wait for, and why they can no longer start."""

from __future__ import annotations

from collections.abc import Sequence

from portal.errors import Conflict, NotFound
from portal.models.session.run import PointState, Run
from portal.models.session.session import SessionRecord
from portal.models.words import count
from portal.store import Store
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable


class Chains:
    """Runs and those before them, in the database. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def waits(self, run: Run) -> bool:
        """Return True if the job of a run that is about to start must wait for another; False if
        there is none, or all of its points have succeeded.

        Raises NotFound if the user has no such run, or a space's run names one that is not the
        space's; Conflict if it has ended otherwise.
        """
        if not run.after:
            return False
        if run.after == run.id:
            raise Conflict("A run cannot start after itself. Choose another run.", "after")
        before = await self._before(run)
        if before is None or run.space not in ("", before.space):
            raise NotFound(
                f"You have no run with the id '{run.after}' after which this one could start. "
                "'portal-run list' shows your runs.",
                "after",
            )
        if before.ended_at is None:
            return True
        if unfinished := await self._unsuccessful(before):
            raise Conflict(
                f"No run can start after '{before.name}': {count(unfinished, 'point')} did not "
                "succeed. Run the failed points again, or start this run without waiting.",
                "after",
            )
        return False

    async def undecided(self, run: Run) -> bool:
        """Return True if the run before this one has not ended: it is not known yet how its points
        did."""
        before = await self._before(run)
        return before is not None and before.ended_at is None

    async def why_not(self, run: Run) -> str:
        """Return why a run that never started could not: a sentence; "" if it was not for the run
        before it."""
        before = await self._before(run)
        if before is None:
            return ""
        if before.reason:
            return f"The run did not start, because '{before.name}' did not start."
        states = await self._states(before)
        failed = states.get(PointState.FAILED, 0) + states.get(PointState.LOST, 0)
        if not failed:
            return ""
        return f"The run did not start, because {count(failed, 'point')} of '{before.name}' failed."

    async def _before(self, run: Run) -> Run | None:
        return await self._store.table(RunTable).get(run.user, run.after) if run.after else None

    async def _unsuccessful(self, run: Run) -> int:
        """Return the number of a run's points that have not succeeded."""
        return run.points - (await self._states(run)).get(PointState.SUCCEEDED, 0)

    async def _states(self, run: Run) -> dict[PointState, int]:
        return (await self._store.table(RunPointTable).counts(run.user, [run.id])).get(run.id, {})


def never_started(run: Run, session: SessionRecord, states: Sequence[PointState]) -> bool:
    """Return True if a run that was to start after another has ended before any of its points
    started, and was not stopped in the portal. ``states``: of the points with a row; those that
    have succeeded may have done so before the run was started again."""
    before = {PointState.WAITING, *([PointState.SUCCEEDED] if run.again_at is not None else ())}
    started = session.started_at is not None or not before.issuperset(states)
    return bool(run.after) and not started and session.ending_code != "stopped"
