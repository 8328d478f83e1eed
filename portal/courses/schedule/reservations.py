"""What Slurm reserves for a course's meetings: made days ahead, kept up to date, removed after.

Only what the portal made is ever changed or removed: each is in the database before Slurm is asked
for it.
"""

from __future__ import annotations

import asyncio
import json
import pwd
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from portal.errors import Conflict, PortalError, SlurmRefused, SlurmUnavailable, Unavailable
from portal.models import Frozen
from portal.models.audit import Outcome
from portal.models.cluster.cluster import Reservation
from portal.models.course.course import CourseState, KeptCourse
from portal.models.course.start import KeptReservation, ReservationState
from portal.slurm.commands.run import own_account
from portal.slurm.control.reservations import GpusNotReservable, Wanted

from ..context import Around
from ..definition.calendar import Meeting, meetings, overlaps
from ..definition.demand import reserved_gpus
from .closeout import ended

_DAY = 86400.0
_CHECK = 60.0  # seconds between two looks at what Slurm has
_DRIFT = 5.0  # seconds by which two clocks may differ without one of them having been set
_AGAIN = 900.0  # seconds until what was refused is tried again
_ACCOUNTS = 600.0  # seconds for which it is believed who has an account
_SHOWN = 50  # meetings
_NAMED = 10  # people in a sentence
_REMOVED = "Somebody removed it in Slurm"
_AS_IT_WAS = "It could not be changed, and is as it was"


def reservation_name(course: str, begins: float) -> str:
    """Slurm's name of the reservation for the meeting of ``course`` that begins then (Unix
    seconds): "course-dl101-20261123T0800", in UTC."""
    return f"course-{course}-{datetime.fromtimestamp(begins, UTC):%Y%m%dT%H%M}"


class MeetingReservation(Frozen):
    """One meeting as the page shows it. Times are Unix seconds; ``state`` "none" where the course
    reserves nothing; ``reserved_from``: when the reservation begins."""

    name: str
    begins: float
    ends: float
    reserved_from: float
    state: str
    message: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Plan:
    """What is wanted for one meeting; ``notes`` say who cannot be in it."""

    kept: KeptCourse
    meeting: Meeting
    wanted: Wanted
    notes: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        return json.dumps(asdict(self.wanted), sort_keys=True)


class Reservations:
    """One a service. ``look`` raises StoreUnavailable, SlurmUnavailable: go on later."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._checked_at = float("-inf")  # by a clock that nobody sets
        self._ends: dict[str, tuple[float, float]] = {}  # of meetings; and by the same clock
        self._accounts: dict[str, tuple[float, bool]] = {}
        self._lock = asyncio.Lock()
        self.wake = asyncio.Event()

    # -- what pages ask -------------------------------------------------------------------------

    async def shown(self, kept: KeptCourse, now: float) -> list[MeetingReservation]:
        """The next meetings of a course, and what is reserved for each. Raises
        StoreUnavailable."""
        ahead = max(_SHOWN, self._around.settings.days_ahead) * _DAY
        coming = meetings(kept.course, now, now + ahead)[:_SHOWN]
        rows = {one.name: one for one in await self._around.store.reservations.all(kept.name)}
        view = self._around.view()
        there = view.snapshot.reservations if view is not None else {}
        twice = {one for pair in overlaps(coming) for one in pair}
        return [
            self._shown(kept, one, begins, rows, there, one in twice)
            for one, begins in zip(coming, self._begins(kept, coming), strict=True)
        ]

    def _shown(
        self,
        kept: KeptCourse,
        meeting: Meeting,
        begins: float,
        rows: Mapping[str, KeptReservation],
        there: Mapping[str, Reservation],
        twice: bool,
    ) -> MeetingReservation:
        name = reservation_name(kept.name, meeting.begins)
        row, held = rows.get(name), there.get(name)
        state = str(row.state) if row is not None else str(ReservationState.PLANNED)
        message = row.message if row is not None else ""
        if not _reserves(kept):
            state = "none"
        elif row is None:
            message = f"It is made {self._around.settings.days_ahead} days ahead."
        if twice:
            message = f"{message} Another meeting of the course is at the same time.".strip()
        made = row is not None and row.state is ReservationState.MADE
        return MeetingReservation(
            name=name,
            begins=meeting.begins,
            ends=meeting.ends,
            reserved_from=begins,
            state=state,
            message=message,
            nodes=held.nodes if held is not None and made else (),
        )

    # -- the loop -------------------------------------------------------------------------------

    async def look(self, now: float) -> None:
        """Bring what Slurm has into agreement with the calendars, a minute after the last look,
        or at once after ``changed``."""
        uptime = self._around.uptime()
        if uptime - self._checked_at < _CHECK:
            return
        async with self._lock:
            rows = {one.name: one for one in await self._around.store.reservations.all()}
            plans, over = await self._plans(now)
            self._checked_at = uptime
            self._note_ends(plans, now, uptime)
            if not rows and not plans:
                return
            there = await self._around.reserving.all()
            for name, row in rows.items():
                # One whose meeting is over because the clock was set ahead is left to Slurm, which
                # ends it by its own: deleted, it could not be had again once the clock is set back.
                early = name in over and name in self._ends and name in there
                if name not in plans and not early:
                    await self._safely(self._remove(row, there.get(name), now))
            for name, plan in plans.items():
                await self._safely(self._make(plan, rows.get(name), there.get(name), now))

    def _note_ends(self, plans: Mapping[str, _Plan], now: float, uptime: float) -> None:
        """Note when the meetings will end, once for each: later the clock may have been set."""
        for name, plan in plans.items():
            ends = plan.meeting.ends
            if name not in self._ends or self._ends[name][0] != ends:
                self._ends[name] = ends, uptime + ends - now - _DRIFT
        known = self._ends.items()
        self._ends = {name: at for name, at in known if name in plans or at[1] > uptime}

    def changed(self) -> None:
        """A course was changed: look at once."""
        self._checked_at = float("-inf")
        self.wake.set()

    async def _safely(self, work: object) -> None:
        """One course's trouble stays its own; that Slurm or the database is away is everyone's."""
        try:
            await work  # type: ignore[misc]
        except PortalError as error:
            if error.status == 503:
                raise
            self._around.log.warning("A reservation: %s", error)
        except Exception:
            self._around.log.exception("A reservation could not be looked after")

    async def _plans(self, now: float) -> tuple[dict[str, _Plan], set[str]]:
        """Plans for the coming meetings by name, and the names for those of the last day."""
        found: dict[str, _Plan] = {}
        over: set[str] = set()
        settings = self._around.settings
        for kept in await self._around.store.courses.all(CourseState.APPROVED):
            if not _reserves(kept) or ended(kept, now):
                continue
            earlier = meetings(kept.course, now - _DAY, now)
            over |= {reservation_name(kept.name, one.begins) for one in earlier}
            coming = meetings(kept.course, now, now + settings.days_ahead * _DAY)
            if not coming:
                continue
            users, notes = await self._users(kept)
            gpus, gpu_type = reserved_gpus(kept, await self._around.cluster.snapshot())
            for meeting, begins in zip(coming, self._begins(kept, coming), strict=True):
                name, reserved = (
                    reservation_name(kept.name, meeting.begins),
                    kept.course.reservation,
                )
                wanted = Wanted(
                    name=name,
                    begins=begins,
                    ends=meeting.ends,
                    users=users,
                    nodes=reserved.nodes,
                    gpus=gpus,
                    gpu_type=gpu_type,
                    partition=reserved.partition or "",
                    account=kept.course.account or "",
                )
                found[name] = _Plan(kept, meeting, wanted, notes)
        return found, over

    def _begins(self, kept: KeptCourse, coming: Sequence[Meeting]) -> list[float]:
        """When the reservations begin: some minutes before each meeting, but not while the one
        before is on, which has nodes of its own."""
        lead = 60.0 * self._around.settings.lead_minutes
        first = coming[0].begins if coming else 0.0
        earlier = meetings(kept.course, first - _DAY, first) if coming else []
        ends = [one.ends for one in (*earlier, *coming)]
        return [
            max(one.begins - lead, *(end for end in (0.0, *ends) if end <= one.begins))
            for one in coming
        ]

    # -- who ------------------------------------------------------------------------------------

    async def _users(self, kept: KeptCourse) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Whom Slurm takes into the course's reservations, and who is left out, in words: one
        stranger would have it refused for all."""
        names = [one.person for one in await self._around.store.members.of(kept.name)]
        known = await self._with_account(names)
        left = [name for name in names if name not in known]
        users: list[str] = []
        without: list[str] = []
        answers = await asyncio.gather(
            *(self._around.cluster.associations(name) for name in known), return_exceptions=True
        )
        for name, answer in zip(known, answers, strict=True):
            account = kept.course.account
            told = not isinstance(answer, BaseException) and answer is not None
            rows = answer if told else ()
            fits = not told or any(not account or row.account == account for row in rows)  # type: ignore[union-attr]
            (users if fits else without).append(name)
        notes = []
        if left:
            notes.append(f"Without an account on the cluster, and so left out: {_some(left)}.")
        if without:
            which = f"the Slurm account '{kept.course.account}'" if kept.course.account else "any"
            notes.append(f"May not charge {which}, and so left out: {_some(without)}.")
        return tuple(users), tuple(notes)

    async def _with_account(self, names: Sequence[str]) -> list[str]:
        old = time.monotonic() - _ACCOUNTS
        unknown = [name for name in names if self._accounts.get(name, (old - 1, False))[0] < old]

        def look() -> dict[str, bool]:
            found = {name: _is_account(name) for name in unknown}
            if not all(found.values()) and not own_account()[1]:
                raise Unavailable(
                    "Who has an account on the cluster is not known: the portal's machine knows "
                    "not even the portal's own. An admin can look with 'getent passwd' there."
                )
            return found

        if unknown:
            found = await asyncio.to_thread(look)
            self._accounts |= {name: (time.monotonic(), there) for name, there in found.items()}
        return [name for name in names if self._accounts[name][1]]

    # -- one meeting ----------------------------------------------------------------------------

    async def _make(
        self, plan: _Plan, row: KeptReservation | None, held: Reservation | None, now: float
    ) -> None:
        ours = row is not None and row.state in (ReservationState.ASKED, ReservationState.MADE)
        same = row is not None and row.spec == plan.spec
        # A clock that was set back makes no wait longer.
        waits = row is not None and same and row.message != "" and 0 <= now - row.at < _AGAIN
        if held is not None and not ours:
            words = f"There is a reservation {plan.wanted.name} that the portal did not make."
            await self._refused(plan, row, words, now)
        elif held is not None and row is not None:
            again = not same or row.state is ReservationState.ASKED
            again = again or (row.message.startswith(_AS_IT_WAS) and not waits)
            if again and _anew(row, plan, held):
                await self._remake(plan, row, now)
            elif not same or row.state is ReservationState.ASKED:
                await self._update(plan, row, now)
            elif row.message and not waits:
                await self._made(plan, row, now, plan.wanted.nodes)
        elif row is not None and row.state is ReservationState.MADE and same:
            words = f"{_REMOVED}. It is made again when the course is changed."
            await self._refused(plan, row, words, now)
        elif not (waits or (same and row is not None and row.message.startswith(_REMOVED))):
            await self._create(plan, row, now)

    async def _remake(self, plan: _Plan, row: KeptReservation, now: float) -> None:
        """Delete ours and make it as it is wanted; where Slurm then refuses, as it was."""
        try:
            await self._around.reserving.delete(plan.wanted.name)
        except (Conflict, SlurmRefused) as error:
            await self._kept_as_it_was(plan, error.message, now)
            return
        await self._create(plan, None, now)
        made = await self._around.store.reservations.all(plan.kept.name)
        new = next((one for one in made if one.name == plan.wanted.name), None)
        if new is None or new.state is not ReservationState.REFUSED or not row.spec:
            return
        old = Wanted(**(json.loads(row.spec) | {"users": plan.wanted.users}))
        if old.partition != plan.wanted.partition:
            return
        try:
            await self._around.reserving.create(replace(old, begins=max(old.begins, now)))
        except (SlurmRefused, Conflict):
            return  # the refusal stands
        await self._kept_as_it_was(plan, new.message, now)

    async def _kept_as_it_was(self, plan: _Plan, why: str, now: float) -> None:
        words = f"{_AS_IT_WAS}: {why}"
        await self._put(plan, ReservationState.MADE, words, now)
        await self._noted("change-reservation", plan, words, Outcome.FAILED)

    async def _create(self, plan: _Plan, row: KeptReservation | None, now: float) -> None:
        wanted, words = replace(plan.wanted, begins=max(plan.wanted.begins, now)), ""
        problem = self._problem(plan)
        if problem:
            await self._refused(plan, row, problem, now)
            return
        await self._put(plan, ReservationState.ASKED, "", now)
        try:
            try:
                await self._around.reserving.create(wanted)
            except GpusNotReservable as error:
                if not wanted.nodes:
                    raise
                words = _nodes_alone(plan, error)
                await self._around.reserving.create(replace(wanted, gpus=0))
        except (SlurmRefused, Conflict) as error:
            await self._refused(plan, row, error.message, now)
            return
        except SlurmUnavailable:
            raise  # it may be made or not: the row says that it was asked for
        except PortalError as error:
            await self._refused(plan, row, error.message, now)
            return
        await self._made(plan, row, now, wanted.nodes, words)

    async def _update(self, plan: _Plan, row: KeptReservation, now: float) -> None:
        """Change ours. What Slurm refuses leaves it as it was."""
        words = ""
        try:
            if problem := self._problem(plan):
                raise SlurmRefused(problem)
            try:
                await self._around.reserving.update(plan.wanted, now)
            except GpusNotReservable as error:
                if not plan.wanted.nodes:
                    raise
                words = _nodes_alone(plan, error)
                await self._around.reserving.update(replace(plan.wanted, gpus=0), now)
        except SlurmUnavailable:
            raise
        except PortalError as error:
            await self._kept_as_it_was(plan, error.message, now)
            return
        await self._made(plan, row, now, plan.wanted.nodes, words)

    async def _made(
        self, plan: _Plan, row: KeptReservation | None, now: float, nodes: int, words: str = ""
    ) -> None:
        """Slurm has it: look at what that is, since it takes fewer nodes for enough, and says that
        it changed GPUs which it keeps as they were (24.11, 26.05)."""
        held = (await self._around.reserving.all()).get(plan.wanted.name)
        notes = [words, *plan.notes]
        if held is not None and len(held.nodes) < nodes:
            notes.append(
                f"Slurm has reserved {len(held.nodes)} of {nodes} nodes: there are no more of them "
                "at that time."
            )
        if held is not None and _other_gpus(held, plan.wanted):
            wanted = f"{plan.wanted.gpus} {plan.wanted.gpu_type}".strip()
            has = f"{held.gpus} {held.gpu_type}".strip()
            notes.append(f"Slurm has reserved {has} GPUs, not {wanted}.")
        if held is not None and not held.gpus:
            notes.append(await self._without_type(held, plan.wanted))
        message = " ".join(one for one in notes if one)
        await self._put(plan, ReservationState.MADE, message, now)
        if row is None or (row.state, row.spec) != (ReservationState.MADE, plan.spec):
            detail = f"{plan.wanted.name}. {message}".strip()
            await self._noted("make-reservation", plan, detail, Outcome.DONE)

    async def _without_type(self, held: Reservation, wanted: Wanted) -> str:
        """Which of its whole nodes have no GPUs of the type that the sessions want."""
        nodes = (await self._around.cluster.snapshot()).nodes
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
            f"Without {wanted.gpu_type} GPUs, which the course's sessions want: {_some(wrong)}. "
            "Reserve in a partition where all nodes have them."
        )

    async def _refused(
        self, plan: _Plan, row: KeptReservation | None, words: str, now: float
    ) -> None:
        message = " ".join([words, *plan.notes])
        await self._put(plan, ReservationState.REFUSED, message, now)
        if row is None or row.message != message:  # said once
            await self._noted("make-reservation", plan, message, Outcome.FAILED)

    def _problem(self, plan: _Plan) -> str:
        """What Slurm would not say, or not in words."""
        if not plan.wanted.users:
            return "Nobody of the course can be in a reservation."
        return ""

    async def _remove(self, row: KeptReservation, held: Reservation | None, now: float) -> None:
        """The meeting is over or off: take away what is ours of it."""
        if row.state is not ReservationState.REFUSED and held is not None:
            try:
                await self._around.reserving.delete(row.name)
            except Conflict:
                return  # its sessions end first, or it ends by itself
            except SlurmRefused as error:
                if row.message != error.message:
                    kept = row.model_copy(update={"message": error.message})
                    await self._around.store.reservations.put(kept)
                return
            await self._around.noted(
                "remove-reservation", row.course, f"{row.name}.", outcome=Outcome.DONE
            )
        await self._around.store.reservations.remove([row.name])

    async def _put(self, plan: _Plan, state: ReservationState, message: str, now: float) -> None:
        await self._around.store.reservations.put(
            KeptReservation(
                name=plan.wanted.name,
                course=plan.kept.name,
                meeting_at=plan.meeting.begins,
                state=state,
                message=message,
                spec=plan.spec,
                at=now,
            )
        )

    async def _noted(self, action: str, plan: _Plan, detail: str, outcome: Outcome) -> None:
        await self._around.noted(action, plan.kept.name, detail, outcome=outcome)


def _reserves(kept: KeptCourse) -> bool:
    return bool(kept.course.reservation.nodes or kept.course.reservation.gpus)


def _anew(row: KeptReservation, plan: _Plan, held: Reservation) -> bool:
    """Whether an update would not do. Of another partition it changes the name and keeps the nodes
    (22.05); of other GPUs it says "updated" and changes nothing (24.11, 26.05)."""
    wanted, asked = plan.wanted, json.loads(row.spec) if row.spec else {}
    if str(asked.get("partition", wanted.partition)) != wanted.partition:
        return True
    if held.gpus:
        fewer = bool(wanted.gpus) and asked.get("nodes", wanted.nodes) != wanted.nodes
        return _other_gpus(held, wanted) or fewer
    before = asked.get("gpus", wanted.gpus), asked.get("gpu_type", wanted.gpu_type)
    return bool(wanted.gpus) and not wanted.nodes and before != (wanted.gpus, wanted.gpu_type)


def _other_gpus(held: Reservation, wanted: Wanted) -> bool:
    """Whether a reservation that counts GPUs counts others than are wanted."""
    other = bool(wanted.gpus and wanted.gpu_type and held.gpu_type != wanted.gpu_type)
    return bool(held.gpus) and (held.gpus != wanted.gpus or other)


def _nodes_alone(plan: _Plan, error: GpusNotReservable) -> str:
    """Words for a course that asked for GPUs; one that asked for nodes has what it asked for."""
    asked = plan.kept.course.reservation.gpus
    return f"Only its nodes are reserved. {error.message}" if asked else ""


def _is_account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
