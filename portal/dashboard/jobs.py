"""Job items of the cluster page, of portal sessions and others alike."""

from __future__ import annotations

from collections.abc import Mapping

from ..launch.kinds import kind_of
from ..models.cluster.cluster import Job, JobState
from ..models.cluster.dashboard import JobItem, QueueReason
from ..models.session.session import SessionRecord
from ..slurm import reasons
from ..slurm.reasons import pending_words, state_words

_WORK = ("work", "work_name", "work_id")
_NAMES = ("user", "name", "account", "environment", "session_id", *_WORK)
_HELD_STATES = (JobState.REQUEUE_HOLD, JobState.RESV_DEL_HOLD, JobState.SPECIAL_EXIT)


def job_item(job: Job, session: SessionRecord | None, now: float) -> JobItem:
    """Build the item of a job, with its names and without its position. ``session``: the portal's
    record, if it is a session.

    ``now``: time of Slurm's answer (Unix seconds); an expected start before that is dropped.
    """
    waits, is_held = job.state.pending, held(job)
    expected = job.start_time if waits and not is_held else None
    if expected is not None and expected < now:
        expected = None
    return JobItem.trusted(
        id=job.id,
        state=str(job.state),
        words=pending_words(job.reason) if _queued(job) else state_words(job.state),
        portal=session is not None,
        mine=False,
        user=(session.user if session else job.user) or None,
        name=job.name or None,
        account=job.account or None,
        environment=(session.environment or None) if session else None,
        session_id=session.id if session else None,
        **dict(zip(_WORK, _work(session) if session else (None,) * 3, strict=True)),
        partition=job.partition,
        qos=job.qos,
        nodes=job.nodes,
        gpus=job.gpus,
        gpu_type=job.gpu_type,
        gpu_indexes=job.gpu_indexes,
        cpus=job.cpus,
        memory=job.memory,
        submit_time=job.submit_time,
        start_time=None if waits else job.start_time,
        expected_start=expected,
        time_limit=job.time_limit,
        end_time=None if waits else job.end_time,
        position=None,
        held=is_held,
    )


def _work(session: SessionRecord) -> tuple[str, str | None, str | None]:
    """Return the word for a session's kind, and the name and id that its launch gave it."""
    kind = kind_of(session)
    asked = session.options.get(kind.option)
    named = asked if isinstance(asked, Mapping) else {}
    return kind.words.noun, named.get("name"), named.get("id")


def without_names(item: JobItem) -> JobItem:
    """Return the job without names, for viewers who may not see them."""
    return item.altered(**dict.fromkeys(_NAMES))


def queue_reason(job: Job) -> QueueReason:
    """Return the class of the reason for which a job waits."""
    return QueueReason.HELD if held(job) else reasons.queue_reason(job.reason)


def held(job: Job) -> bool:
    """Return True if a waiting job is held: it does not start until someone releases it."""
    if job.state in _HELD_STATES:
        return True
    # scontrol(1), hold: the priority becomes 0.
    return job.state is JobState.PENDING and (
        job.priority == 0
        or job.reason.startswith("JobHeld")
        or job.reason == "job requeued in held state"
    )


def _queued(job: Job) -> bool:
    """Return True if the reason says why it waits; for a job whose nodes boot, the state does."""
    return job.state is JobState.PENDING
