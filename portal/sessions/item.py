"""Session as shown to its owner and others who may see it: the API's item, made of everything
known about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from portal.launch.kinds import kind_of
from portal.launch.programs import opened_beside
from portal.models import Frozen
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.cluster.dashboard import JobItem
from portal.models.session.idle import IdleState
from portal.models.session.run import SPACE_KEYS
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.usage import JobUsage, SessionReports
from portal.spaces.registry import space_type_of
from portal.work.tensorboard.kind import OPTION

from .efficiency import Efficiency, efficiency_of
from .ending import title_of, words_for
from .links import ProgramLink, SessionLinks, links_of, program_links
from .right_size import Suggestion, slices_of, suggestion_for

_WORDS = {
    SessionState.PENDING: "waiting",
    SessionState.STARTING: "starting",
    SessionState.RUNNING: "running",
    SessionState.ENDED: "ended",
}


class EndingItem(Frozen):
    """End of a session: ``code`` for programs, a short ``title``, ``words`` for the viewer."""

    code: str
    title: str
    words: str
    stopped_by: str = ""  # who stopped it or cancelled its job, if known


class SessionItem(Frozen):
    """Session. Times are Unix seconds, durations seconds, memory MiB; null: unknown.

    ``words``: its state, or why it waits. ``options`` are those of its launch. ``position``,
    ``expected_start``, ``time_left``, ``ends_at`` and ``gpu_indexes`` are from Slurm's last
    answer, for a session that lives. ``log_folders``: initial folders of a TensorBoard for an
    ended session ("~" is the home); null: none can be started for it. ``in_space``: such as
    "course dl101", "" for the user's own. ``has_page``: its server
    has a page, and its resources can be changed; false for a kernel in a job of its own.
    """

    id: str
    user: str
    mine: bool
    server: str
    account: str
    environment: str
    environment_title: str
    course: str
    project: str
    in_space: str
    job_id: str
    state: SessionState
    words: str
    options: dict[str, Any]
    submitted_at: float
    started_at: float | None
    ready_at: float | None
    ended_at: float | None
    nodes: tuple[str, ...]
    gpu_indexes: dict[str, tuple[int, ...]]
    position: int | None
    expected_start: float | None
    time_left: float | None
    ends_at: float | None
    ending: EndingItem | None
    exit_code: int | None
    idle: IdleState | None = None  # of a running session
    efficiency: Efficiency
    suggestion: Suggestion | None
    log_folders: tuple[str, ...] | None
    links: SessionLinks
    programs: tuple[ProgramLink, ...]  # those of its environment, for its owner while it runs
    has_page: bool = True


@dataclass(frozen=True)
class SessionContext:
    """Data on a session beside the record itself."""

    viewer: str
    base: str  # the Hub's base URL
    now: float
    environment: Environment | None  # as it is offered to the session's owner now
    usage: JobUsage | None = None
    reports: SessionReports | None = None
    simulated: bool = False  # the site's telemetry
    job: JobItem | None = None  # as Slurm has it, with its names
    snapshot: ClusterSnapshot | None = None
    living: Sequence[SessionRecord] = field(default=())  # of the same owner
    idle: IdleState | None = None


def session_item(record: SessionRecord, context: SessionContext) -> SessionItem:
    """Return the item for ``context.viewer``, who must be allowed to see it."""
    efficiency = efficiency_of(
        record,
        context.usage,
        context.reports,
        now=context.now,
        simulated=context.simulated,
        time_limit=context.job.time_limit if context.job else None,
    )
    suggestion = suggestion_for(
        record,
        efficiency,
        context.environment,
        _longest(record, context.snapshot),
        slices_of(context.snapshot),
    )
    is_own = record.user == context.viewer
    tensorboard_folders = record.options.get(OPTION)  # by a session that is a TensorBoard
    links, programs = SessionLinks(), tuple[ProgramLink, ...]()
    folders = None
    if is_own:
        over = record.state is SessionState.ENDED and (record.started_at or tensorboard_folders)
        if context.environment and over:
            folders = tuple(tensorboard_folders or ("~",))
        links = links_of(
            record,
            context.base,
            busy=record.state is not SessionState.ENDED
            or any(
                other.server == record.server and other.id != record.id for other in context.living
            ),
            again=record.again if context.environment and not tensorboard_folders else None,
            suggested=suggestion.options if suggestion and not tensorboard_folders else None,
        )
        opened = opened_beside(kind_of(record), record.space, context.environment)
        programs = program_links(record, context.base, opened)
    job = context.job if record.state is not SessionState.ENDED else None
    end = _ends_at(record, job, efficiency)
    space = space_type_of(record.server, record.options)
    return SessionItem.like(
        record,
        mine=is_own,
        **{key: record.space if space and space.option == key else "" for key in SPACE_KEYS},
        in_space=f"{space.noun} {record.space}" if space and record.space else "",
        words=_words(record, job),
        options={key: value for key, value in record.options.items() if key != "environment"},
        nodes=record.nodes or (job.nodes if job else ()),
        gpu_indexes=job.gpu_indexes if job else {},
        position=job.position if job else None,
        expected_start=job.expected_start if job else None,
        time_left=None if end is None else max(0.0, end - context.now),
        ends_at=end,
        ending=_ending(record, context.viewer),
        idle=context.idle if record.state is SessionState.RUNNING else None,
        efficiency=efficiency,
        suggestion=suggestion,
        log_folders=folders,
        links=links,
        programs=programs,
        has_page=kind_of(record).serves,
    )


def _words(record: SessionRecord, job: JobItem | None) -> str:
    if record.state is SessionState.PENDING and job is not None:
        return job.words
    return _WORDS[record.state]


def _ends_at(record: SessionRecord, job: JobItem | None, efficiency: Efficiency) -> float | None:
    """Return the time at which its time limit ends; None: unknown, not started or ended."""
    if record.state is SessionState.ENDED or record.started_at is None:
        return None
    if job is not None and job.end_time is not None:
        return job.end_time
    if efficiency.time_limit is None:
        return None
    return record.started_at + efficiency.time_limit


def _ending(record: SessionRecord, viewer: str) -> EndingItem | None:
    if record.state is not SessionState.ENDED:
        return None
    code = record.ending_code or "unknown"
    return EndingItem(
        code=code,
        title=title_of(record),
        words=words_for(record, viewer) or "How the session ended is unknown.",
        stopped_by=record.stopped_by,
    )


def _longest(record: SessionRecord, snapshot: ClusterSnapshot | None) -> int | None:
    """Return the longest time that its partition allows, in seconds; None: unknown or no limit."""
    name = record.options.get("partition")
    partition = snapshot.partitions.get(name) if snapshot and isinstance(name, str) else None
    return partition.max_time if partition else None
