"""Notices a proxy that has restarted: its routes are lost.

A proxy with a unit of its own restarts without the Hub, and JupyterHub compares the routes every
five minutes (c.JupyterHub.last_activity_interval). Until then running sessions end in a "Redirect
loop", since all of their addresses lead to the Hub.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import ClientResponseError

MARK = "portal-proxy-watch"
"""The path of one more route to the Hub. A proxy that lacks it is a new one; to ask for one route
is cheap, while the proxy writes all of them out for the path of the Hub's own (its ``/``)."""


class ProxyWatch:
    """Looks every ``interval`` seconds and calls ``restore`` when the proxy is a new one.

    ``ask`` is the proxy's API, JupyterHub's ``ConfigurableHTTPProxy.api_request``; it waits by
    itself for a proxy that is away. ``target`` gives the Hub's address.
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

    async def start(self) -> None:
        """Mark this proxy and begin to look; a second call does nothing. To be called before its
        routes are made: one that restarts in between is a new one."""
        if self._looking is None:
            first = asyncio.ensure_future(self.mark())
            self._looking = asyncio.ensure_future(self._run(first))
            await asyncio.shield(first)

    async def mark(self) -> None:
        """Have this proxy known again. The route's data have no "jupyterhub", so the Hub passes
        over it when it looks for routes of sessions that are over."""
        await self._ask(MARK, method="POST", body={"target": self._target()})

    async def look(self) -> bool:
        """Restore the routes of a proxy that is not known; return whether it was one."""
        try:
            await self._ask(MARK)
        except ClientResponseError as error:
            if error.status != 404:
                raise
        else:
            return False
        self._log.warning("The proxy has restarted: its routes are restored")
        await self._restore()
        await self.mark()  # last: what failed before it is tried again
        return True

    async def _run(self, first: asyncio.Future[None]) -> None:
        await asyncio.wait({first})  # a proxy that is late is not a new one
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.look()
            except Exception as error:
                # It is away, or its answer was lost; JupyterHub's own requests say so in the log.
                self._log.debug("The proxy could not be asked: %s", error)
