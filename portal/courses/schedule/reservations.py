"""Reservations for the meetings of courses: made days ahead, kept up to date, removed after."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from portal.errors import PortalError
from portal.models import Frozen
from portal.models.cluster.cluster import Reservation
from portal.models.course.course import StoredCourse
from portal.models.course.start import ReservationState, StoredReservation
from portal.models.space import SpaceState
from portal.slurm.control.reservations import DesiredReservation

from ..context import CourseContext
from ..definition.calendar import Meeting, meetings, overlaps
from ..definition.demand import reserved_gpus
from .attendees import Attendees
from .closeout import ended
from .plan import Plan, reservation_name, reserves
from .upkeep import Upkeep

_DAY = 86400.0
_CHECK = 60.0  # seconds between two looks at what Slurm has
_DRIFT = 5.0  # seconds by which two clocks may differ without one of them having been set
_SHOWN = 50  # meetings


class MeetingReservation(Frozen):
    """Meeting as the page shows it. Times are Unix seconds; ``state`` is "none" if the course
    reserves nothing; ``reserved_from``: when the reservation begins."""

    name: str
    begins: float
    ends: float
    reserved_from: float
    state: str
    message: str = ""
    nodes: tuple[str, ...] = ()


class Reservations:
    """Reservations; one instance a service. ``look`` raises StoreUnavailable, SlurmUnavailable."""

    def __init__(self, context: CourseContext) -> None:
        self._context = context
        self._attendees, self._upkeep = Attendees(context), Upkeep(context)
        self._checked_at = float("-inf")  # by the monotonic clock
        self._ends: dict[str, tuple[float, float]] = {}  # of meetings; and by the same clock
        self._lock = asyncio.Lock()
        self.wake = asyncio.Event()

    # -- what pages ask -------------------------------------------------------------------------

    async def shown(self, stored: StoredCourse, now: float) -> list[MeetingReservation]:
        """Return the next meetings of a course, and what is reserved for each. Raises
        StoreUnavailable."""
        ahead = max(_SHOWN, self._context.settings.days_ahead) * _DAY
        coming = meetings(stored.course, now, now + ahead)[:_SHOWN]
        rows = {
            entry.name: entry for entry in await self._context.store.reservations.all(stored.name)
        }
        view = self._context.view()
        in_slurm = view.snapshot.reservations if view is not None else {}
        twice = {entry for pair in overlaps(coming) for entry in pair}
        return [
            self._shown(stored, entry, begins, rows, in_slurm, entry in twice)
            for entry, begins in zip(coming, self._begins(stored, coming), strict=True)
        ]

    def _shown(
        self,
        stored: StoredCourse,
        meeting: Meeting,
        begins: float,
        rows: Mapping[str, StoredReservation],
        in_slurm: Mapping[str, Reservation],
        twice: bool,
    ) -> MeetingReservation:
        name = reservation_name(stored.name, meeting.begins)
        row, held = rows.get(name), in_slurm.get(name)
        state = str(row.state) if row is not None else str(ReservationState.PLANNED)
        message = row.message if row is not None else ""
        if not reserves(stored):
            state = "none"
        elif row is None:
            message = f"Created {self._context.settings.days_ahead} days before the meeting."
        if twice:
            message = f"{message} Another meeting of the course is at the same time.".strip()
        is_made = row is not None and row.state is ReservationState.MADE
        return MeetingReservation(
            name=name,
            begins=meeting.begins,
            ends=meeting.ends,
            reserved_from=begins,
            state=state,
            message=message,
            nodes=held.nodes if held is not None and is_made else (),
        )

    # -- the loop -------------------------------------------------------------------------------

    async def run_due(self, now: float) -> None:
        """Reconcile the reservations in Slurm with the calendars, a minute after the last time, or
        at once after ``changed``."""
        uptime = self._context.uptime()
        if uptime - self._checked_at < _CHECK:
            return
        async with self._lock:
            rows = {
                reservation.name: reservation
                for reservation in await self._context.store.reservations.all()
            }
            plans, over = await self._plans(now)
            self._checked_at = uptime
            self._note_ends(plans, now, uptime)
            if not rows and not plans:
                return
            in_slurm = await self._context.reserving.all()
            for name, row in rows.items():
                # A meeting that is over only because the clock was set ahead is left to Slurm,
                # which ends it by its own: once deleted, it could not be had again when the clock
                # is set back.
                early = name in over and name in self._ends and name in in_slurm
                if name not in plans and not early:
                    await self._safely(self._upkeep.remove(row, in_slurm.get(name), now))
            for name, plan in plans.items():
                await self._safely(self._upkeep.make(plan, rows.get(name), in_slurm.get(name), now))

    def _note_ends(self, plans: Mapping[str, Plan], now: float, uptime: float) -> None:
        """Note when each meeting will end, only once: the clock may be set later."""
        for name, plan in plans.items():
            ends = plan.meeting.ends
            if name not in self._ends or self._ends[name][0] != ends:
                self._ends[name] = ends, uptime + ends - now - _DRIFT
        known = self._ends.items()
        self._ends = {name: at for name, at in known if name in plans or at[1] > uptime}

    def changed(self) -> None:
        """Run at once, since a course was changed."""
        self._checked_at = float("-inf")
        self.wake.set()

    async def _safely(self, work: object) -> None:
        """Log what concerns one course only; raise if Slurm or the database is away."""
        try:
            await work  # type: ignore[misc]
        except PortalError as error:
            if error.status == 503:
                raise
            self._context.log.warning("A reservation could not be updated: %s", error)
        except Exception:
            self._context.log.exception("A reservation could not be updated")

    async def _plans(self, now: float) -> tuple[dict[str, Plan], set[str]]:
        """Return the plans for the coming meetings by name, and the names for the last day's."""
        plans: dict[str, Plan] = {}
        over: set[str] = set()
        settings = self._context.settings
        for stored in await self._context.store.courses.all(SpaceState.APPROVED):
            if not reserves(stored) or ended(stored, now):
                continue
            earlier = meetings(stored.course, now - _DAY, now)
            over |= {reservation_name(stored.name, past.begins) for past in earlier}
            coming = meetings(stored.course, now, now + settings.days_ahead * _DAY)
            if not coming:
                continue
            users, notes = await self._attendees.of_course(stored)
            gpus, gpu_type = reserved_gpus(stored, await self._context.cluster.snapshot())
            for meeting, begins in zip(coming, self._begins(stored, coming), strict=True):
                name, reserved = (
                    reservation_name(stored.name, meeting.begins),
                    stored.course.reservation,
                )
                wanted = DesiredReservation(
                    name=name,
                    begins=begins,
                    ends=meeting.ends,
                    users=users,
                    nodes=reserved.nodes,
                    gpus=gpus,
                    gpu_type=gpu_type,
                    partition=reserved.partition or "",
                    account=stored.course.account or "",
                )
                plans[name] = Plan(stored, meeting, wanted, notes)
        return plans, over

    def _begins(self, stored: StoredCourse, coming: Sequence[Meeting]) -> list[float]:
        """Return when the reservations begin: some minutes before each meeting, but not during the
        previous one, which has nodes of its own."""
        lead = 60.0 * self._context.settings.lead_minutes
        first = coming[0].begins if coming else 0.0
        earlier = meetings(stored.course, first - _DAY, first) if coming else []
        ends = [meeting.ends for meeting in (*earlier, *coming)]
        return [
            max(meeting.begins - lead, *(end for end in (0.0, *ends) if end <= meeting.begins))
            for meeting in coming
        ]
