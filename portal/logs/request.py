"""Request that the running code works for: its id, and what else its log lines name.

The id comes from the proxy in front (X-Request-ID), or is made here. It goes with every call that
the request leads to, so that one word finds a launch in the logs of the service, the Hub and the
job.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

HEADER = "X-Request-ID"
TRACE_PARENT = "traceparent"  # of W3C's Trace Context
_WELL_FORMED = re.compile(r"[A-Za-z0-9-]{8,64}")
_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_NOTHING: Mapping[str, str] = MappingProxyType({})
# Tasks and threads (asyncio.to_thread) have a copy of their maker's.
PASSED_ON: ContextVar[Mapping[str, str]] = ContextVar("portal_request", default=_NOTHING)
"""Headers by which another process knows this request: HEADER, and TRACE_PARENT if it has one."""
_fields: ContextVar[Mapping[str, str]] = ContextVar("portal_log_fields", default=_NOTHING)
_began: ContextVar[int | None] = ContextVar("portal_request_began", default=None)


def begin_request(given: str | None = "", trace_parent: str | None = "") -> str:
    """Begin a request with the id that it was ``given``, if that is well-formed, else with a new
    one; return it. What was known of another request is forgotten. ``trace_parent``: its header,
    which names the trace that it belongs to."""
    id_ = given if given and _WELL_FORMED.fullmatch(given) else secrets.token_hex(8)
    headers = {HEADER: id_}
    if trace_parent and _PARENT.fullmatch(trace_parent):
        headers[TRACE_PARENT] = trace_parent
    PASSED_ON.set(headers)
    _fields.set({"request_id": id_})
    _began.set(time.time_ns())
    return id_


def leave_request() -> None:
    """Forget the request: for a task that it began, and that goes on for everybody."""
    PASSED_ON.set(_NOTHING)
    _fields.set(_NOTHING)
    _began.set(None)


def note_fields(**fields: str) -> None:
    """Add ``fields``, such as the user, to the log lines of this request."""
    _fields.set({**_fields.get(), **{name: text for name, text in fields.items() if text}})


def fields() -> Mapping[str, str]:
    """Return what log lines of this request name, such as "request_id" and "user"."""
    return _fields.get()


def request_id() -> str:
    """Return the request's id; "" for what no request has caused."""
    return PASSED_ON.get().get(HEADER, "")


def began_at() -> int | None:
    """Return when the request began, in nanoseconds since 1970; None without one."""
    return _began.get()
