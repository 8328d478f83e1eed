"""Upkeep of a meeting's reservation in Slurm: created, changed and removed; and its outcome.

Only what the portal made is ever changed or removed: each is in the database before Slurm is asked
for it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from portal.errors import Conflict, PortalError, SlurmRefused, SlurmUnavailable
from portal.models.audit import AuditedAction, Outcome
from portal.models.cluster.cluster import Reservation
from portal.models.course.audit import CourseAudit
from portal.models.course.start import ReservationState, StoredReservation
from portal.slurm.control.reservations import DesiredReservation, GpusNotReservable

from ..context import CourseContext
from .plan import Plan, must_be_made_anew, nodes_alone, other_gpus, some

_AGAIN = 900.0  # seconds until what was refused is tried again
_REMOVED = "The reservation was removed in Slurm"
_REMOVED_BEFORE = "Somebody removed it in Slurm"  # in rows of version 0.1
_AS_IT_WAS = "The reservation could not be changed"


class Upkeep:
    """Creation and removal of reservations, one at a time. Both methods raise StoreUnavailable and
    SlurmUnavailable: retry later."""

    def __init__(self, context: CourseContext) -> None:
        self._context = context

    async def make(
        self, plan: Plan, row: StoredReservation | None, held: Reservation | None, now: float
    ) -> None:
        """Bring Slurm's reservation, ``held``, into agreement with the plan; ``row`` is the
        database's record of it."""
        ours = row is not None and row.state in (ReservationState.ASKED, ReservationState.MADE)
        same = row is not None and row.spec == plan.spec
        # A clock that was set back prolongs no wait.
        waits = row is not None and same and row.message != "" and 0 <= now - row.at < _AGAIN
        if held is not None and not ours:
            words = f"A reservation {plan.wanted.name} exists that the portal did not create."
            await self._refused(plan, row, words, now)
        elif held is not None and row is not None:
            again = not same or row.state is ReservationState.ASKED
            again = again or (row.message.startswith(_AS_IT_WAS) and not waits)
            if again and must_be_made_anew(row, plan, held):
                await self._remake(plan, row, now)
            elif not same or row.state is ReservationState.ASKED:
                await self._update(plan, row, now)
            elif row.message and not waits:
                await self._made(plan, row, now, plan.wanted.nodes)
        elif row is not None and row.state is ReservationState.MADE and same:
            words = f"{_REMOVED}. It is created again when the course is changed."
            await self._refused(plan, row, words, now)
        elif not (
            waits
            or (same and row is not None and row.message.startswith((_REMOVED, _REMOVED_BEFORE)))
        ):
            await self._create(plan, row, now)

    async def _remake(self, plan: Plan, row: StoredReservation, now: float) -> None:
        """Delete our reservation and create it as wanted; if Slurm refuses, as it was before."""
        try:
            await self._context.reserving.delete(plan.wanted.name)
        except (Conflict, SlurmRefused) as error:
            await self._leave_unchanged(plan, error.message, now)
            return
        await self._create(plan, None, now)
        rows = await self._context.store.reservations.all(plan.stored.name)
        new = next((candidate for candidate in rows if candidate.name == plan.wanted.name), None)
        if new is None or new.state is not ReservationState.REFUSED or not row.spec:
            return
        old = DesiredReservation(**(json.loads(row.spec) | {"users": plan.wanted.users}))
        if old.partition != plan.wanted.partition:
            return
        try:
            await self._context.reserving.create(replace(old, begins=max(old.begins, now)))
        except (SlurmRefused, Conflict):
            return  # the refusal stands
        await self._leave_unchanged(plan, new.message, now)

    async def _leave_unchanged(self, plan: Plan, why: str, now: float) -> None:
        words = f"{_AS_IT_WAS}: {why}"
        await self._put(plan, ReservationState.MADE, words, now)
        await self._noted(CourseAudit.CHANGE_RESERVATION, plan, words, Outcome.FAILED)

    async def _create(self, plan: Plan, row: StoredReservation | None, now: float) -> None:
        wanted = replace(plan.wanted, begins=max(plan.wanted.begins, now))
        problem = self._problem(plan)
        if problem:
            await self._refused(plan, row, problem, now)
            return
        await self._put(plan, ReservationState.ASKED, "", now)
        try:
            words = await _with_gpus(plan, wanted, self._context.reserving.create)
        except (SlurmRefused, Conflict) as error:
            await self._refused(plan, row, error.message, now)
            return
        except SlurmUnavailable:
            raise  # it may be made or not: the row says that it was asked for
        except PortalError as error:
            await self._refused(plan, row, error.message, now)
            return
        await self._made(plan, row, now, wanted.nodes, words)

    async def _update(self, plan: Plan, row: StoredReservation, now: float) -> None:
        """Change our reservation. If Slurm refuses, it stays as it was."""
        try:
            if problem := self._problem(plan):
                raise SlurmRefused(problem)
            update = partial(self._context.reserving.update, now=now)
            words = await _with_gpus(plan, plan.wanted, update)
        except SlurmUnavailable:
            raise
        except PortalError as error:
            await self._leave_unchanged(plan, error.message, now)
            return
        await self._made(plan, row, now, plan.wanted.nodes, words)

    async def _made(
        self, plan: Plan, row: StoredReservation | None, now: float, nodes: int, words: str = ""
    ) -> None:
        """Record what Slurm has made, which may differ: it takes fewer nodes for enough, and says
        that it changed GPUs which it keeps as they were (24.11, 26.05)."""
        held = (await self._context.reserving.all()).get(plan.wanted.name)
        notes = [words, *plan.notes]
        if held is not None and len(held.nodes) < nodes:
            notes.append(
                f"Slurm has reserved {len(held.nodes)} of {nodes} nodes: no more are available at "
                "that time."
            )
        if held is not None and other_gpus(held, plan.wanted):
            wanted = f"{plan.wanted.gpus} {plan.wanted.gpu_type}".strip()
            has = f"{held.gpus} {held.gpu_type}".strip()
            notes.append(f"Slurm has reserved {has} GPUs, not {wanted}.")
        if held is not None and not held.gpus:
            notes.append(await self._without_type(held, plan.wanted))
        message = " ".join(note for note in notes if note)
        await self._put(plan, ReservationState.MADE, message, now)
        if row is None or (row.state, row.spec) != (ReservationState.MADE, plan.spec):
            detail = f"{plan.wanted.name}. {message}".strip()
            await self._noted(CourseAudit.MAKE_RESERVATION, plan, detail, Outcome.DONE)

    async def _without_type(self, held: Reservation, wanted: DesiredReservation) -> str:
        """Name the whole nodes of the reservation without GPUs of the type that sessions want."""
        nodes = (await self._context.cluster.snapshot()).nodes
        wrong = [
            name
            for name in held.nodes
            if wanted.gpu_type
            and name in nodes
            and wanted.gpu_type not in {pool.type for pool in nodes[name].gpus}
        ]
        if not wrong:
            return ""
        return (
            f"Nodes without the {wanted.gpu_type} GPUs that the sessions need: {some(wrong)}. "
            "Use a partition where all nodes have these GPUs."
        )

    async def _refused(
        self, plan: Plan, row: StoredReservation | None, words: str, now: float
    ) -> None:
        message = " ".join([words, *plan.notes])
        await self._put(plan, ReservationState.REFUSED, message, now)
        if row is None or row.message != message:  # said once
            await self._noted(CourseAudit.MAKE_RESERVATION, plan, message, Outcome.FAILED)

    def _problem(self, plan: Plan) -> str:
        """Return what Slurm would not say, or not clearly; "" if there is no problem."""
        if not plan.wanted.users:
            return "No member of the course can be added to the reservation."
        return ""

    async def remove(self, row: StoredReservation, held: Reservation | None, now: float) -> None:
        """Remove our reservation of a meeting that is over or cancelled."""
        if row.state is not ReservationState.REFUSED and held is not None:
            try:
                await self._context.reserving.delete(row.name)
            except Conflict:
                return  # its sessions end first, or it ends by itself
            except SlurmRefused as error:
                if row.message != error.message:
                    updated = row.model_copy(update={"message": error.message})
                    await self._context.store.reservations.put(updated)
                return
            await self._context.noted(
                CourseAudit.REMOVE_RESERVATION, row.course, f"{row.name}.", outcome=Outcome.DONE
            )
        await self._context.store.reservations.remove([row.name])

    async def _put(self, plan: Plan, state: ReservationState, message: str, now: float) -> None:
        await self._context.store.reservations.put(
            StoredReservation(
                name=plan.wanted.name,
                course=plan.stored.name,
                meeting_at=plan.meeting.begins,
                state=state,
                message=message,
                spec=plan.spec,
                at=now,
            )
        )

    async def _noted(
        self, action: AuditedAction, plan: Plan, detail: str, outcome: Outcome
    ) -> None:
        await self._context.noted(action, plan.stored.name, detail, outcome=outcome)


async def _with_gpus(
    plan: Plan, wanted: DesiredReservation, ask: Callable[[DesiredReservation], Awaitable[object]]
) -> str:
    """Ask Slurm for ``wanted``, or for its nodes alone if it reserves no GPUs; return the sentence
    that says so, "" if it has all."""
    try:
        await ask(wanted)
    except GpusNotReservable as error:
        if not wanted.nodes:
            raise
        await ask(replace(wanted, gpus=0))
        return nodes_alone(plan, error)
    return ""


def _was_removed(row: StoredReservation) -> bool:
    return row.message.startswith((_REMOVED, _REMOVED_BEFORE))
