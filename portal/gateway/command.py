"""``portal gateway``: the process between the proxy and the replicas of served models."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

import aiohttp

from .. import __version__
from ..command import SiteCommand
from ..errors import ConfigurationError, InvalidRequest
from .access import Access
from .callers import Callers
from .forwarding import Forwarding
from .keys import ensure_identity
from .places import Places
from .routes import RoutesFile
from .server import Server
from .state import Changes, StateServer

ROUTES = "routes.json"
_LOOK = 0.25  # seconds between two looks at the file of routes
_HUB = "http://127.0.0.1:8081/hub/api"
_PROXIES = frozenset({"127.0.0.1", "::1"})  # X-Forwarded-For of these names the caller
_BACKLOG = 1024
_STOP = 60.0  # seconds for which requests may end; below TimeoutStopSec of the unit
PER_USER = 200  # requests at once, waiting ones included
PER_ADDRESS = 400  # requests, and connections of an address that is no proxy's


class GatewayApp(SiteCommand):
    """Run the gateway on HOST:PORT, for a proxy on this machine, until it gets SIGTERM.

    Its environment says the rest, as units do: STATE_DIRECTORY (systemd.exec(5)), mode 700, for its
    key, the routes that the web service writes and the socket on which it tells its state, belongs
    to the account of both; JUPYTERHUB_API_URL is the Hub's API, which is asked about tokens.

    A socket of systemd's on its standard input (systemd.socket(5), StandardInput=socket) is taken
    instead of the address: what connects to it while no gateway runs waits for the next one.
    """

    name = "portal-gateway"
    description = "The gateway of endpoints, in a process of its own: gateway HOST:PORT."

    def run(self) -> bool:
        """Run until the end. Raises InvalidRequest, ConfigurationError."""
        address = self.argument("Say the address that the gateway listens on", "HOST:PORT")
        ip, _, port = address.rpartition(":")
        if not ip or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
            raise InvalidRequest(f"'{address[:100]}' is no address. Example: 127.0.0.1:8003")
        if not os.environ.get("STATE_DIRECTORY"):
            raise ConfigurationError(
                "The variable STATE_DIRECTORY must name the gateway's state directory."
            )
        self.log_level = logging.INFO
        directory = Path(os.environ["STATE_DIRECTORY"])
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = directory.stat()
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                raise ConfigurationError(
                    f"{directory} must belong to the gateway's account, and nobody else may write "
                    "to it."
                )
            identity = ensure_identity(directory)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"The gateway cannot use {directory}: {error}") from None
        try:
            asyncio.run(
                Running(ip.strip("[]"), int(port), directory, identity, self.log).until_stopped()
            )
        except OSError as error:
            raise ConfigurationError(f"The gateway cannot listen on {address}: {error}") from None
        return True


class Running:
    """The gateway while it runs."""

    def __init__(
        self, ip: str, port: int, directory: Path, identity: Path, log: logging.Logger
    ) -> None:
        self._ip, self._port, self._directory, self._log = ip, port, directory, log
        self._routes = RoutesFile(directory / ROUTES, identity, self._log)

    async def until_stopped(self) -> None:
        """Serve until SIGTERM; then accept no more, and let requests end. Raises OSError."""
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        changes = Changes()
        places = Places(changes.note)
        self._routes.read()
        places.apply(self._routes.models, self._routes.written_at)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as to_hub:
            access = Access(os.environ.get("JUPYTERHUB_API_URL", _HUB), to_hub, self._log)
            forwarding = Forwarding(self._routes)
            callers = Callers(
                places,
                access,
                forwarding,
                self._log,
                per_user=PER_USER,
                per_address=PER_ADDRESS,
                proxies=_PROXIES,
            )
            server = Server(
                callers.handle,
                self._log,
                per_address=PER_ADDRESS,
                proxies=_PROXIES,
            )
            bound = _inherited() or _bound(self._ip, self._port)
            listening = await asyncio.get_running_loop().create_server(
                server, sock=bound, backlog=_BACKLOG
            )
            told = StateServer(places, callers, changes)
            await told.start(self._directory)
            looking = asyncio.create_task(self._look(places))
            self._log.info("Gateway %s listens on %s:%d", __version__, self._ip, self._port)
            await stopped.wait()
            listening.close()
            forwarding.closing = True  # connections end with their request
            await self._drained(callers, _STOP)
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
            await server.shutdown(1.0)
            await told.stop()
            await access.close()
            await forwarding.close()

    async def _look(self, places: Places) -> None:
        """Take new routes as they are written."""
        while True:
            await asyncio.sleep(_LOOK)
            try:
                if self._routes.changed() and await asyncio.to_thread(self._routes.read):
                    places.apply(self._routes.models, self._routes.written_at)
            except Exception:
                self._log.exception("The routes cannot be taken")

    async def _drained(self, callers: Callers, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while callers.in_flight and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        if callers.in_flight:
            self._log.warning("%d requests are cut: their time is over", callers.in_flight)


def _inherited() -> socket.socket | None:
    """Return the socket on standard input if it is one that listens, else None."""
    try:
        found = socket.socket(fileno=os.dup(0))
        if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return found
        found.close()
    except OSError:  # no socket
        pass
    return None


def _bound(ip: str, port: int) -> socket.socket:
    """Return a socket for the address, which the next gateway can share while this one ends."""
    family: Any = socket.AF_INET6 if ":" in ip else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((ip, port))
    return made
