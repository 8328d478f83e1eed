"""Origin and reason of a stop, also of one that nobody asked for.

``Spawner.stop()`` does not get them: the Hub's routes that stop servers set the context variables
here (``hub_patches/stop_context.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any
from urllib.parse import unquote

from jupyterhub import orm

from portal.models.session.stop_reason import REASON_HEADER, StopCode, StopReason
from portal.sessions.ending import Ending, stop_words

from .culler import SERVICE as CULLER

SERVICE = "portal"
FOR_HEADER = "X-Portal-For"  # of portal.hubapi, which only the service uses

CULLED = StopReason(
    code=StopCode.IDLE,
    words="The session was idle for a long time, and this site stops idle sessions.",
)

_asker: ContextVar[str] = ContextVar("portal_asker", default="")
_why: ContextVar[StopReason | None] = ContextVar("portal_why", default=None)


def asker() -> str:
    """Return the name of the person or service for whom this runs; "" for the Hub itself."""
    return _asker.get()


def why() -> StopReason | None:
    """Return the reason given by the service that asks; None if a person asks."""
    return _why.get()


def reason_of(handler: Any) -> StopReason | None:
    """Return why a service asks for this stop: the portal's own says it, either its own reason or
    that of the user for whom it asks; the idle culler has one reason only. From anybody else the
    header means nothing."""
    who = handler.current_user
    if not isinstance(who, orm.Service):
        return None
    if who.name == CULLER:
        return CULLED
    headers = handler.request.headers
    given = StopReason.read(headers.get(REASON_HEADER, "")) if who.name == SERVICE else None
    of_user = given is not None and given.code is StopCode.STOPPED
    return given if of_user == bool(headers.get(FOR_HEADER)) else None


def asked_by(handler: Any) -> str:
    """Return who makes this request. The portal's service names the person that it acts for; from
    anybody else the header means nothing."""
    who = handler.current_user
    if who is None:
        return ""
    if isinstance(who, orm.Service) and who.name == SERVICE:
        person = unquote(handler.request.headers.get(FOR_HEADER, ""))
        if person.isprintable() and orm.User.find(handler.db, person) is not None:
            return person
    return str(who.name)


@contextlib.contextmanager
def on_behalf_of(handler: Any) -> Iterator[None]:
    """Set who makes this request, and why, for everything that is started in the block."""
    asker_before, why_before = _asker.set(asked_by(handler)), _why.set(reason_of(handler))
    try:
        yield
    finally:
        _asker.reset(asker_before)
        _why.reset(why_before)


def reason(
    by: str,
    owner: str,
    *,
    ready: bool,
    answers: bool,
    came_back: bool,
    http_timeout: int,
    why: StopReason | None = None,
    noun: str = "session",
) -> Ending:
    """Return why a session, called ``noun``, is being stopped. ``by``: who asked for it, ""
    being the Hub itself; ``why``: the reason that a service gave.

    ``ready``: its server has posted its port; ``answers`` is False while the Hub waits for that
    server's first answer; ``came_back``: the Hub was restarted under the session.
    """
    if by and why is not None and why.code is not StopCode.STOPPED:
        return Ending(code=why.code, message=why.words, by=by)
    if by:
        words = stop_words(by, owner, owner, noun, why.words if why else "")
        return Ending(code="stopped", message=words, by=by)
    if not ready:
        return Ending(code="start_failed", message=f"The {noun} did not become ready in time.")
    if answers:
        return Ending(code="stopped", message=stop_words("", owner, owner, noun))
    silence = f"did not answer the Hub within {http_timeout} s"
    if came_back:
        message = f"After a restart of the Hub, the session's server {silence}, so it was stopped."
        return Ending(code="failed", message=message)
    message = f"The session's server reported its port, but {silence}."
    return Ending(code="start_failed", message=message)
