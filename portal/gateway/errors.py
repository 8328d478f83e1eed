"""Refusals of the gateway: JSON with one sentence, as clients of OpenAI's API read it."""

from __future__ import annotations

import json

from aiohttp import web

from ..errors import PortalError

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    502: "server_error",
    503: "unavailable_error",
    504: "timeout_error",
}
# The gateway's own words shall not run in a browser, nor those of a program (`forwarding`).
SAFE = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}


class Refused(PortalError):
    """Refusal with an HTTP ``status``; ``retry_after``: seconds until another try may help."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after

    @property
    def type(self) -> str:
        """OpenAI's word for it."""
        return _TYPES.get(self.status, "invalid_request_error")


class ReplicaFailed(Exception):
    """Failure of a replica before the first byte of its answer. ``sent``: the program may have
    seen the request; ``words``: a sentence's end, for the caller."""

    def __init__(self, words: str, *, sent: bool, status: int = 502) -> None:
        super().__init__(words)
        self.words, self.sent, self.status = words, sent, status


def answer(refused: Refused) -> web.Response:
    """Return the response that says it. The connection is closed: a body may be unread."""
    headers = dict(SAFE)
    if refused.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(refused.retry_after)))
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = {"error": {"message": refused.message, "type": refused.type, "code": refused.status}}
    return web.Response(
        status=refused.status,
        headers=headers,
        text=json.dumps(body),
        content_type="application/json",
    )
