"""Steps of a session's start, from the Hub, Slurm and the session's own report. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from portal.models.session.session import SessionRecord
from portal.models.session.startup import Startup, Step, StepItem

_TITLES: dict[str, str] = {
    "queue": "Waiting in Slurm's queue",
    Step.CONTAINER: "Starting the environment",
    Step.IMPORTS: "Importing JupyterLab",
    Step.EXTENSIONS: "Loading the server's extensions",
    Step.LISTENING: "Notifying the Hub",
    "rest": "Slurm and the Hub",
    Step.PAGE: "Opening JupyterLab in the browser",
}


def startup_of(record: SessionRecord, session_seconds: Mapping[str, float]) -> Startup | None:
    """Return the steps of its start in their order; None before any is known.

    ``session_seconds``: the session's own, by step. Its clock and the Hub's are never compared: the
    part of the time until it was ready that neither measured is one step, "rest".
    """
    seconds = {name: session_seconds[name] for name in Step if name in session_seconds}
    timings: dict[str, float] = {}
    if record.started_at is not None:
        timings["queue"] = max(0.0, record.started_at - record.submitted_at)
    own = {str(name): value for name, value in seconds.items() if name is not Step.PAGE}
    timings |= own
    ready = None
    if record.ready_at is not None:
        ready = max(0.0, record.ready_at - record.submitted_at)
        if record.started_at is not None:
            rest = record.ready_at - record.started_at - sum(own.values())
            timings["rest"] = max(0.0, rest)
    if Step.PAGE in seconds:
        timings[str(Step.PAGE)] = seconds[Step.PAGE]
    if not timings:
        return None
    steps = tuple(
        StepItem(name=name, title=_TITLES[name], seconds=value) for name, value in timings.items()
    )
    return Startup(steps=steps, ready=ready)
