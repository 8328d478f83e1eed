"""Detection of a restarted proxy, which has lost its routes.

A proxy with a unit of its own restarts without the Hub, and JupyterHub compares the routes every
five minutes (c.JupyterHub.last_activity_interval). Until then running sessions end in a "Redirect
loop", since all of their addresses lead to the Hub.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import ClientResponseError

from portal.periodic import Periodic

MARK = "portal-proxy-watch"
"""Path of an extra route to the Hub. A proxy that lacks it is a new one. Asking for this route is
cheap, while the proxy returns all routes for the path of the Hub's own (its ``/``)."""


class ProxyWatch:
    """Watch that looks every ``interval`` seconds and calls ``restore`` for a new proxy.

    ``ask`` is the proxy's API, JupyterHub's ``ConfigurableHTTPProxy.api_request``; it waits by
    itself for a proxy that is away. ``target`` returns the Hub's address.
    """

    def __init__(
        self,
        ask: Callable[..., Awaitable[Any]],
        restore: Callable[[], Awaitable[None]],
        target: Callable[[], str],
        interval: float,
        log: Any,
    ) -> None:
        self._ask, self._restore, self._target = ask, restore, target
        self._interval, self._log = interval, log
        self._looking: asyncio.Task[None] | None = None
        self._restored = True

    async def start(self) -> None:
        """Mark this proxy and start the watch; a second call does nothing. Call it before the
        proxy's routes are made: one that restarts in between is a new one."""
        if self._looking is None:
            first = asyncio.ensure_future(self.mark())
            self._looking = asyncio.ensure_future(self._run(first))
            await asyncio.shield(first)

    async def mark(self) -> None:
        """Add the mark to this proxy. The route's data have no "jupyterhub", so the Hub ignores it
        when it looks for routes of ended sessions."""
        await self._ask(MARK, method="POST", body={"target": self._target()})

    def note_wrong(self) -> None:
        """Have the routes put right once the proxy answers, even if it is no new one."""
        self._restored = False

    async def restore_routes(self) -> bool:
        """Restore the routes of a proxy without the mark; return whether it lacked it, or routes
        since the last time."""
        try:
            await self._ask(MARK)
        except ClientResponseError as error:
            if error.status != 404:
                raise
            self._restored = False
        if self._restored:
            return False
        self._log.warning("The proxy has restarted, or missed changes: its routes are restored")
        # First, since requests are repeated until a proxy answers: a mark that is set after the
        # routes may reach the successor of the proxy that has them.
        await self.mark()
        self._restored = True  # first: a change that is missed meanwhile is noted
        try:
            await self._restore()
        except BaseException:
            self._restored = False
            raise
        return True

    async def _run(self, first: asyncio.Future[None]) -> None:
        await asyncio.wait({first})  # a proxy that is late is not a new one
        await Periodic(
            "The check of the proxy",
            self.restore_routes,
            self._interval,
            self._log,
            level=logging.DEBUG,  # JupyterHub's own requests log that it is away
            expected=Exception,
            later=True,
        ).run()
