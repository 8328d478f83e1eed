"""The Hub's progress stream, ``api/users/NAME/server/progress``, with an end and a limit.

JupyterHub's own goes on until the start is over, even without a reader: an abandoned one keeps its
place in the Hub for as long as a job waits in the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

from jupyterhub import apihandlers
from jupyterhub.apihandlers.users import SpawnProgressAPIHandler
from tornado import web

from ..lifecycle.progress import LEFT, LOOK_EVERY
from .patch import Patch, replace_handlers

AT_MOST = 20  # open streams of one person, service or token's owner; a page has one
_MOMENT = 2 * LOOK_EVERY  # seconds in which a spawner's events end by themselves

_open: Counter[tuple[str, str]] = Counter()


class ProgressStream(SpawnProgressAPIHandler):
    """JupyterHub's stream, which ends with its connection. 429 above ``AT_MOST`` streams."""

    _left: asyncio.Event
    _telling: asyncio.Task[None] | None = None
    _ending: asyncio.Task[None] | None = None

    async def get(self, user_name: str, server_name: str | None = "") -> None:
        """Send events until the server is ready, the start has failed, or nobody listens."""
        who = self.current_user
        if who is None:
            await super().get(user_name, server_name)  # refuses
            return
        key = (who.kind, who.name)
        if _open[key] >= AT_MOST:
            refused = web.HTTPError(
                429,
                f"You already have the maximum of {AT_MOST} progress pages open. Close some "
                "of them.",
            )
            # JupyterHub takes headers of an error from there, and drops the handler's own.
            refused.headers = {"Retry-After": "30"}  # type: ignore[attr-defined]
            raise refused
        _open[key] += 1
        self._left = asyncio.Event()
        LEFT.set(self._left)
        try:
            self._telling = asyncio.ensure_future(super().get(user_name, server_name))
            with contextlib.suppress(asyncio.CancelledError):  # the connection is closed
                await self._telling
        finally:
            _open[key] -= 1
            if not _open[key]:
                del _open[key]

    def on_connection_close(self) -> None:
        """End the stream, which has no reader any more."""
        super().on_connection_close()
        if self._telling is not None and self._ending is None:
            self._ending = asyncio.ensure_future(self._end(self._telling))

    async def _end(self, telling: asyncio.Task[None]) -> None:
        # Not by cancellation alone: JupyterHub would leave the task that waits for an event, take
        # this for the end of the events, and then wait for the end of the start.
        self._left.set()
        while not (await asyncio.wait([telling], timeout=_MOMENT))[0]:
            telling.cancel()


def apply() -> None:
    """Replace JupyterHub's stream."""
    replace_handlers((apihandlers.default_handlers,), {SpawnProgressAPIHandler: ProgressStream})


PATCH = Patch(
    name="progress-stream",
    changes=("jupyterhub.apihandlers.users:SpawnProgressAPIHandler",),
    why=(
        "Security: JupyterHub's streams continue until the start has ended, even without a "
        "reader, and their number has no limit. Jobs wait for days, and abandoned streams "
        "keep their resources."
    ),
    upstream="none",
    until="JupyterHub ends a stream with its connection, and limits their number per user.",
    apply=apply,
)
