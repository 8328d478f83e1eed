"""Links of a session's page: to its server, and to the launch page, filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from portal.launch.kinds import kind_of
from portal.models import Frozen
from portal.models.session.session import SessionRecord, SessionState

PROGRAMS = "portal/programs/"  # of portal_session, below the server's address
_COMING = (SessionState.PENDING, SessionState.STARTING)


class ProgramLink(Frozen):
    """Program that can be opened beside a running session: the first request starts it."""

    title: str
    url: str


class SessionLinks(Frozen):
    """Addresses on this site, for the session's owner; null: there is nothing to go to.

    ``progress`` is the page that follows a start.
    ``launch_again`` and ``launch_suggested`` fill the launch page in and start nothing. They are
    null while the server of that name lives, and where the environment is no longer offered. All
    are null for a session without a page.
    """

    open: str | None = None
    progress: str | None = None
    launch_again: str | None = None
    launch_suggested: str | None = None


def links_of(
    record: SessionRecord,
    base: str,
    *,
    busy: bool,
    again: Mapping[str, Any] | None,
    suggested: Mapping[str, Any] | None,
) -> SessionLinks:
    """Return the links of a session. ``base`` is the Hub's base URL with its slashes. ``busy``: a
    session of that server lives; ``again`` and ``suggested`` are ``user_options``, None if they
    cannot be launched."""
    if not kind_of(record).serves:
        return SessionLinks()
    url = server_url(record, base) if record.state is SessionState.RUNNING else None
    return SessionLinks(
        open=url,
        progress=progress_url(record, base) if record.state in _COMING else None,
        launch_again=None if busy or again is None else spawn_url(record, base, again),
        launch_suggested=None if busy or suggested is None else spawn_url(record, base, suggested),
    )


def program_links(
    record: SessionRecord, base: str, programs: Mapping[str, str]
) -> tuple[ProgramLink, ...]:
    """Return the links to ``programs``, titles by name, beside a session; none unless it runs."""
    if record.state is not SessionState.RUNNING:
        return ()
    url = f"{server_url(record, base)}{PROGRAMS}"
    return tuple(ProgramLink(title=title, url=f"{url}{name}/") for name, title in programs.items())


def server_url(record: SessionRecord, base: str) -> str:
    """Return the address of the session's server, behind the proxy."""
    server = f"{quote(record.server, safe='')}/" if record.server else ""
    return f"{base}user/{_name(record.user)}/{server}"


def progress_url(record: SessionRecord, base: str) -> str:
    """Return the Hub's page that follows a start and leads to the session."""
    server = f"/{quote(record.server, safe='')}" if record.server else ""
    return f"{base}hub/spawn-pending/{_name(record.user)}{server}"


def spawn_url(record: SessionRecord, base: str, options: Mapping[str, Any]) -> str:
    """Return the address of the launch page for the same server, with ``options`` chosen
    (jupyterhub's ``opt-…``)."""
    server = f"/{_name(record.user)}/{quote(record.server, safe='')}" if record.server else ""
    query = urlencode({f"opt-{key}": value for key, value in options.items() if value is not None})
    return f"{base}hub/spawn{server}?{query}"


def _name(user: str) -> str:
    # As jupyterhub.user.User.escaped_name writes it.
    return quote(user, safe="@~")
