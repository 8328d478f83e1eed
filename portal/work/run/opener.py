"""Session of a user in which the files of a run are opened. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from portal.launch.kinds import kind_of
from portal.models.session.run import Run
from portal.models.session.session import SessionRecord, SessionState
from portal.sessions.links import server_url
from portal.spaces.registry import requested_space

_PATH = "portal/runs/open"  # portal_session/runs/opening.py


def opener_url(run: Run, living: Iterable[SessionRecord], base: str) -> str:
    """Return the address, without its query, that opens a file of a run in JupyterLab: in the
    newest session that runs, otherwise in the default one, which the Hub offers to start; of a
    space's run, in the space's session. ``living``: the user's sessions; ``base``: the Hub's base
    URL with its slashes."""
    usable = [record for record in living if record.space == run.space and has_runs(record)]
    server = requested_space(dict(run)).server
    default = SessionRecord(id="", user=run.user, server=server, submitted_at=0.0)
    record = max(usable, key=lambda record: record.submitted_at, default=default)
    return f"{server_url(record, base)}{_PATH}"


def has_runs(record: SessionRecord) -> bool:
    """Return True if a session runs and has JupyterLab, whose files and dialog are for runs; one of
    a space, if that allows runs."""
    return record.state is SessionState.RUNNING and kind_of(record).job_kernels
