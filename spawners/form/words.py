"""Sentences for people: sizes, times, resources and states in plain English. Pure functions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from portal.errors import PortalError
from portal.launch.kinds import JupyterLab
from portal.models import words
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.session.resources import memory_mib, time_seconds
from portal.models.words import count, duration, ordinal
from portal.sessions.ending import Ending
from portal.slurm import pending_words, state_words


def size(number: float) -> str:
    """Return bytes in words, in powers of 1024: "512 MB", "1.5 TB"."""
    units = ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while abs(number) >= 1024 and len(units) > 1:
        number /= 1024
        units.pop(0)
    exact = number < 10 and units[0] in ("GB", "TB", "PB")
    text = f"{number:.1f}" if exact else f"{number:.0f}"
    return f"{text.removesuffix('.0')} {units[0]}"


def memory(text: str) -> str:
    """Return "32 GB" for "32G". Text that is not a memory size is returned unchanged."""
    try:
        return size(memory_mib(text) * 1024 * 1024)
    except ValueError:
        return text


def time_limit(text: str) -> str:
    """Return "2 h" for "2:00:00". Text that is not a time is returned unchanged."""
    try:
        return duration(time_seconds(text))
    except ValueError:
        return text


def clock(moment: float, now: float | None = None) -> str:
    """Return Unix seconds as the server's local time, "10:42", with the day if not today."""
    return words.clock(moment, time.time() if now is None else now)


def gpus(number: int, title: str | None = None) -> str:
    """Return a number of GPUs in words, with the title of their type: "2 x V100", "no GPU"."""
    if not number:
        return "no GPU"
    return f"{number} \N{MULTIPLICATION SIGN} {title}" if title else count(number, "GPU")


def resources(spawner: Any, options: Mapping[str, Any] | None) -> str:
    """Return the resources in ``user_options`` as a line: "2 x V100, 8 CPUs, 32 GB, 2 h".

    ``spawner`` is any PortalSpawner, for the titles of GPU types. Never raises: what an old or
    foreign session stored is shown as far as it can be read.
    """
    options = options or {}
    parts = []
    number, gpu_type = options.get("gpus"), str(options.get("gpu_type") or "")
    with contextlib.suppress(AttributeError):  # another spawner class of the site
        gpu_type = spawner.shared.form.title_of(gpu_type)
    parts.append(gpus(number if isinstance(number, int) else 0, gpu_type))
    if isinstance(options.get("cpus"), int):
        parts.append(count(options["cpus"], "CPU"))
    if options.get("memory"):
        parts.append(memory(str(options["memory"])))
    if isinstance(options.get("nodes"), int) and options["nodes"] > 1:
        parts.append(f"on each of {options['nodes']} nodes")
    if options.get("time"):
        parts.append(time_limit(str(options["time"])))
    return ", ".join(parts)


def environment(spawner: Any, options: Mapping[str, Any] | None) -> str:
    """Return the title of the environment in ``options``; its name if it is no longer there.

    ``spawner`` is any PortalSpawner of the person, for its catalog.
    """
    name = str((options or {}).get("environment") or "")
    if not name:
        return ""
    try:
        return str(spawner.shared.catalog.get(name, spawner.person).title)
    except (AttributeError, PortalError):
        return name


def simulated(spawner: Any, options: Mapping[str, Any] | None) -> bool:
    """Return True if the GPUs in ``options`` are simulated; False if none are requested."""
    options = options or {}
    if not options.get("gpus"):
        return False
    try:
        return bool(spawner.shared.form.simulates(str(options.get("gpu_type") or "")))
    except AttributeError:  # another spawner class of the site
        return False


def outdated(
    snapshot: ClusterSnapshot, stale_after: float, what: str, now: float | None = None
) -> str:
    """Return how old ``what`` ("these numbers are") is and why; "" while Slurm answers.

    ``stale_after``: seconds after which an answer is old even without an error. ``now`` (Unix
    seconds) counts for a snapshot that was not requested in this process.
    """
    measured = now is None or snapshot.asked_at is not None
    age = snapshot.age if measured else (now or 0.0) - snapshot.taken_at
    if not snapshot.error and age <= stale_after:
        return ""
    return f"Slurm does not answer: {what} {duration(age)} old. {snapshot.error}".strip()


def stale(spawner: Any) -> str:
    """Return a sentence on the age of what a page says of sessions; "" while Slurm answers."""
    try:
        snapshot = spawner.shared.cluster.last
        if snapshot is None:
            return ""
        return outdated(snapshot, spawner.shared.form.stale_after, "the data on this page is")
    except AttributeError:
        return ""


def state(job_state: JobState) -> str:
    """Return a Slurm state in words: "running", "its nodes are being switched on"."""
    if job_state.ended:
        return f"ended: {state_words(job_state)}"
    return state_words(job_state).removeprefix("it is ").removeprefix("it was ")


def pending(job: Job, position: int | None = None, now: float | None = None) -> str:
    """Describe a pending job: "waiting for resources: 3rd in the queue, expected 10:42"."""
    if job.state is not JobState.PENDING:
        return state(job.state)
    details = []
    if position:
        details.append(f"{ordinal(position)} in the queue")
    if job.start_time and job.start_time > (time.time() if now is None else now):
        details.append(f"expected {clock(job.start_time, now)}")
    reason = pending_words(job.reason)
    return f"{reason}: {', '.join(details)}" if details else reason


def running(job: Job, now: float | None = None) -> str:
    """Describe a job that holds nodes: "running on gpu02, ends 12:42"."""
    text = state(job.state)
    if job.nodes and job.state is JobState.RUNNING:
        text += f" on {', '.join(job.nodes)}"
    if job.end_time:
        text += f", ends {clock(job.end_time, now)}"
    return text


def session(spawner: Any) -> str:
    """Describe the state of a session, from a Spawner object or its database row.

    Reads ``pending``, ``ready``, ``job`` (a Job or None) and ``last_ending`` if they exist.
    """
    waits = getattr(spawner, "pending", None)
    if waits == "stop":
        return "stopping"
    job = getattr(spawner, "job", None)
    if isinstance(job, Job):
        if job.state.pending:
            return pending(job)
        if job.state.running and waits:
            return f"starting on {', '.join(job.nodes)}" if job.nodes else "starting"
        if job.state.running:
            return running(job)
    if waits:
        return "starting"
    if getattr(spawner, "ready", False):
        return "running"
    ending = getattr(spawner, "last_ending", None)
    if ending is None:
        # A session that is not running may only have its database row, with the saved state.
        ending = (getattr(spawner, "state", None) or {}).get("ending")
    if isinstance(ending, Mapping) and ending.get("message"):
        return f"not running. {ending['message']}"
    return "not running"


def ended(spawner: Any) -> str:
    """Return when the last session of a Spawner object ended, and why; "" if that is not known."""
    ending = getattr(spawner, "last_ending", None)
    if not ending:
        return ""
    noun = getattr(spawner, "kind", JupyterLab).words.noun
    return Ending(**ending).dated_words(spawner.user.name, noun, time.time())


# Functions for the Hub's page templates, as the template variable `words`. Not the module itself:
# traitlets copies configuration, and a module cannot be copied.
FOR_PAGES = SimpleNamespace(
    ended=ended,
    environment=environment,
    resources=resources,
    session=session,
    simulated=simulated,
    stale=stale,
)
