"""Tiles of a course's live board, from what is known of its students' sessions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from portal.launch.kinds import kind_of
from portal.models.cluster.dashboard import GpuItem, JobItem
from portal.models.course.board import Tile, TileState
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.course.live import Help, HelpState, Presence
from portal.models.course.start import CourseStart, Seat, SeatState
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import Role
from portal.work.kernel.kind import JobKernel

from ..roster.joining import NOT_JOINED, not_joined

# Endings (portal.sessions.ending.TITLES) that the tile shows as a failure. The others were
# intended, by a person or by the time limit.
_FAILED = frozenset(
    {"out_of_memory", "node_failure", "preempted", "start_failed", "failed", "unknown"}
)
_HELPED = frozenset({HelpState.ASKED, HelpState.GRANTED})
_TURN = "The portal will start the session soon."
_AWAY = "Slurm does not respond. The start is waiting."
_STARTING = {
    SessionState.PENDING: "The job is waiting in the queue.",
    SessionState.STARTING: "The server is starting.",
}


@dataclass(frozen=True)
class Rows:
    """Rows of one course in the database, read once for all who watch.

    ``sessions`` are the course's of the last day, without their logs; ``start`` the newest one
    that is no rehearsal, with its ``seats``; ``handout`` the revision that folders should have.
    """

    members: Sequence[CourseMember] = ()
    sessions: Sequence[SessionRecord] = ()
    presences: Sequence[Presence] = ()
    helps: Sequence[Help] = ()
    start: CourseStart | None = None
    seats: Sequence[Seat] = ()
    handout: str = ""


@dataclass(frozen=True)
class ClusterState:
    """State of the cluster in memory: living sessions and jobs by job id, GPUs by "NODE/INDEX".
    ``away``: Slurm does not answer now; ``silent``: nodes that do not answer Slurm."""

    sessions: Mapping[str, SessionRecord] = field(default_factory=dict)
    jobs: Mapping[str, JobItem] = field(default_factory=dict)
    gpus: Mapping[str, GpuItem] = field(default_factory=dict)
    away: bool = False
    silent: frozenset[str] = frozenset()


def tiles(stored: StoredCourse, rows: Rows, seen: ClusterState) -> list[Tile]:
    """Return a tile for each student, by name."""
    records = [*rows.sessions, *seen.sessions.values()]
    newest, jobs = newest_sessions(stored, records), living_jobs(stored, records)
    presences = {row.person: row for row in rows.presences}
    helps = {row.student: row for row in rows.helps if row.state in _HELPED}
    seats = {row.person: row for row in rows.seats}
    return [
        _tile(
            row.person,
            newest.get(row.person),
            seen,
            presences.get(row.person),
            helps.get(row.person),
            seats.get(row.person),
            jobs.get(row.person, ()),
            absent=not_joined(stored.course, row),
        )
        for row in sorted(rows.members, key=lambda member: member.person)
        if row.role is Role.STUDENT
    ]


def newest_sessions(
    stored: StoredCourse, records: Iterable[SessionRecord]
) -> dict[str, SessionRecord]:
    """Return each person's last session in the course's own server, by name; other servers do not
    count. A living one is the last, whatever the clock showed when others were submitted."""
    newest: dict[str, SessionRecord] = {}
    for record in _rows(records):
        if (record.space, record.server) != (stored.name, stored.course.server):
            continue
        previous = newest.get(record.user)
        if previous is None or _rank(record) >= _rank(previous):
            newest[record.user] = record
    return newest


def living_jobs(
    stored: StoredCourse, records: Iterable[SessionRecord]
) -> dict[str, list[SessionRecord]]:
    """Return the course's kernels in jobs of their own and runs that wait or run, by person."""
    jobs: dict[str, list[SessionRecord]] = {}
    for record in _rows(records):
        own = record.space == stored.name and not kind_of(record).serves
        if own and record.state is not SessionState.ENDED:
            jobs.setdefault(record.user, []).append(record)
    return jobs


def bare(tile: Tile) -> Tile:
    """Return the tile without what its session reports of the student."""
    return tile.model_copy(
        update={
            "opened_at": None,
            "last_activity": None,
            "notebooks": (),
            "hand": "",
            "hand_at": None,
            "handout_message": "",
        }
    )


def _rows(records: Iterable[SessionRecord]) -> Iterable[SessionRecord]:
    """Return one row of each session: of two, from memory and database, the one that has ended is
    the newer."""
    rows: dict[str, SessionRecord] = {}
    for record in records:
        previous = rows.get(record.id)
        if previous is None or previous.state is not SessionState.ENDED:
            rows[record.id] = record
    return rows.values()


def _rank(record: SessionRecord) -> tuple[bool, float]:
    return record.state is not SessionState.ENDED, record.submitted_at


def _tile(
    person: str,
    record: SessionRecord | None,
    seen: ClusterState,
    presence: Presence | None,
    help_: Help | None,
    seat: Seat | None,
    beside: Sequence[SessionRecord] = (),
    *,
    absent: bool = False,
) -> Tile:
    kernels = [job for job in beside if job.work == JobKernel.name]
    runs = len(beside) - len(kernels)
    if record is None or record.state is SessionState.ENDED:
        tile = _absent(person, record, seat, seen).model_copy(
            update={"kernels": len(kernels), "runs": runs}
        )
        if absent and tile.state not in (TileState.WAITING, TileState.FAILED):
            return tile.model_copy(update={"words": NOT_JOINED})
        return tile
    job = seen.jobs.get(record.job_id)
    tile = Tile(
        person=person,
        session_id=record.id,
        job_id=record.job_id,
        ends_at=job.end_time if job else None,
        nodes=record.nodes or (job.nodes if job else ()),
        gpus=job.gpus if job else 0,
        gpu_type=job.gpu_type if job else "",
        cpus=job.cpus if job else 0,
        memory=job.memory if job else None,
        help=help_,
        kernels=len(kernels),
        runs=runs,
    )
    if record.state is not SessionState.RUNNING:
        words = _STARTING[record.state]
        if record.state is SessionState.PENDING and job is not None:
            words = _sentence(job.words)
        silent = [name for name in tile.nodes if name in seen.silent]
        if silent:
            words = f"The node {silent[0]} does not respond to Slurm."
        if seen.away:
            words = _AWAY
        since = record.submitted_at
        return tile.model_copy(update={"state": TileState.WAITING, "words": words, "since": since})
    jobs = [job, *(seen.jobs.get(kernel.job_id) for kernel in kernels)]
    more = {"state": TileState.RUNNING, "since": record.ready_at, **_gpu_use(jobs, seen)}
    more["kernel_gpus"] = sum(sum(map(len, of.gpu_indexes.values())) for of in jobs[1:] if of)
    if presence is not None and presence.session_id == record.id:
        more |= presence.model_dump(exclude={"course", "person", "session_id"})
    return tile.model_copy(update=more)


def _absent(
    person: str, record: SessionRecord | None, seat: Seat | None, seen: ClusterState
) -> Tile:
    """Return the tile of a person without a session: the state of their start, else the end of the
    last session."""
    ended_at = record.ended_at or record.submitted_at if record else float("-inf")
    if seat is not None and seat.state in (SeatState.WAITING, SeatState.STARTING):
        words = seat.message or (
            _TURN if seat.state is SeatState.WAITING else "The Hub is starting the session."
        )
        words = _AWAY if seen.away else words
        return Tile(person=person, state=TileState.WAITING, words=words, since=seat.asked_at)
    failed_at = (seat.ended_at or seat.asked_at or 0) if seat else 0
    if seat is not None and seat.state is SeatState.FAILED and failed_at >= ended_at - 5:
        words = seat.message or "The session could not be started."
        return Tile(person=person, state=TileState.FAILED, words=words, since=failed_at)
    if record is None:
        return Tile(person=person)
    if record.ending_code in _FAILED:
        words = record.ending_message or "The session ended for an unknown reason."
        return Tile(
            person=person,
            state=TileState.FAILED,
            words=words,
            session_id=record.id,
            job_id=record.job_id,
            since=record.ended_at,
        )
    return Tile(person=person, words=_last(record), since=record.ended_at)


def _last(record: SessionRecord) -> str:
    ended = {
        "completed": "The last session was shut down by the student.",
        "idle": "The last session was stopped because it was idle.",
        "walltime": "The last session reached its time limit.",
        "moved": "The last session was replaced by one with other resources.",
        "cancelled": "The last session's job was cancelled in Slurm.",
        "stopped": f"{record.stopped_by or 'The portal'} stopped the last session.",
    }
    return ended.get(record.ending_code, "The last session has ended.")


def _gpu_use(jobs: Iterable[JobItem | None], seen: ClusterState) -> dict[str, float | int | None]:
    """Return the mean use of the jobs' GPUs in percent and the sum of their memory, as telemetry
    has them."""
    held = (item for job in jobs if job for item in job.gpu_indexes.items())
    keys = (f"{node}/{i}" for node, indexes in held for i in indexes)
    gpus = [seen.gpus[key] for key in keys if key in seen.gpus]
    used = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    memory = [gpu.memory_used for gpu in gpus if gpu.memory_used is not None]
    return {
        "gpu_use": sum(used) / len(used) if used else None,
        "gpu_memory": sum(memory) if memory else None,
    }


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}" if words else ""
