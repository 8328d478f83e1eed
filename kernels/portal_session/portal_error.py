"""Error of a request to the portal, whoever sends it: the session's server, or a program through
the server's socket. And the patience with a portal that is away."""

from __future__ import annotations

import time
from typing import Any, Callable

PAUSE = 2.0  # seconds between two requests while the portal is away
AWAY = "The portal does not answer. The request is repeated for up to {} min."


class PortalError(Exception):
    """Failed request: a sentence for the person, the ``status``, and the ``field`` of the request
    that is wrong, or "". ``away``: the portal does not answer, so that nothing is known about the
    request."""

    def __init__(
        self, message: str, status: int = 503, field: str = "", *, away: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.field, self.away = status, field, away


class Patience:
    """Requests that are repeated while the portal is away, for ``seconds`` in all: for those that
    may come twice. ``ask_once`` sends one; ``tell`` is called with a sentence when it begins to
    wait."""

    def __init__(
        self,
        ask_once: Callable[..., dict[str, Any]],
        seconds: float,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._ask_once, self._seconds, self._tell = ask_once, seconds, tell
        self._until = 0.0  # monotonic time of the end of the patience, once the portal was away

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the JSON object of its answer. Raises PortalError."""
        while True:
            try:
                return self._ask_once(method, path, body)
            except PortalError as error:
                if not error.away:
                    raise
                now = time.monotonic()
                if not self._until:
                    self._until = now + self._seconds
                    self._tell(AWAY.format(max(1, round(self._seconds / 60))))
                if now >= self._until:
                    raise
                time.sleep(PAUSE)
