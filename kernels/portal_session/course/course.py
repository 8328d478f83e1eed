"""Course's session: presence reports to the portal, the owner's raised hand; and, in a project's
too, the owner's answer whether somebody may be in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Callable

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from ..local_api import LocalHandler, Refused
from ..service import Address, Service, ServiceError
from ..situation import Situations, in_thread
from .together import is_room

PERIOD = 5.0  # seconds between two looks
LONGEST = 60.0  # seconds between two reports of the same
CALM = 30.0  # seconds between two reports that differ in the last activity only
MOST = 50  # notebooks
_ANSWERS = ("agree", "refuse", "end")


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    address, course = Address.from_environ(os.environ), os.environ.get("PORTAL_COURSE")
    if address is None or not (course or os.environ.get("PORTAL_PROJECT")):
        return
    service = Service(address, os.environ)
    guests = getattr(app.identity_provider, "portal_guests", None)
    routes = {"portal/help": HelpHandler, **({"portal/hand": HandHandler} if course else {})}
    add_handlers(app.web_app, service, app.portal_situations, guests, routes)
    if not course:
        return
    inside = guests.inside if guests is not None and is_room(os.environ) else list
    app.portal_presence = Presence(app, service, os.environ.get("JUPYTERHUB_USER", ""), inside)
    app.io_loop.spawn_callback(app.portal_presence.run)


def add_handlers(
    web_app: Any,
    service: Service,
    situations: Situations,
    guests: Any,
    routes: Mapping[str, type[CourseHandler]],
) -> None:
    """Add the routes to jupyter_server's web application. ``guests``: who enters this session."""
    base = web_app.settings["base_url"]
    shared = {"service": service, "situations": situations, "guests": guests}
    web_app.add_handlers(
        ".*$", [(url_path_join(base, path), kind, shared) for path, kind in routes.items()]
    )


class CourseHandler(LocalHandler):
    """Base class: open to the session's owner, and to nobody else who is in."""

    def initialize(self, service: Service, situations: Situations, guests: Any) -> None:
        self.service = service
        self.situations = situations
        self.guests = guests

    async def prepare(self) -> None:
        await super().prepare()
        self.check_owner()

    async def forward(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        """Send a request to the service and finish with its response. Raises Refused."""
        try:
            response = await in_thread(self.service.ask, method, path, body)
        except ServiceError as error:
            raise Refused(error.status, str(error)) from None
        finally:
            self.situations.outdate()
            if self.guests is not None:
                self.guests.outdate()
        self.finish(response)


class HandHandler(CourseHandler):
    """``portal/hand``: POST ``{"text": …}`` raises the hand, DELETE lowers it."""

    @authenticated
    @authorized
    async def post(self) -> None:
        text = self.body().get("text", "")
        if not isinstance(text, str):
            raise Refused(400, "'text' must be text.")
        await self.forward("PUT", "session/hand", {"text": text})

    @authenticated
    @authorized
    async def delete(self) -> None:
        await self.forward("DELETE", "session/hand")


class HelpHandler(CourseHandler):
    """``portal/help``: POST ``{"id": …, "answer": "agree" | "refuse" | "end"}``."""

    @authenticated
    @authorized
    async def post(self) -> None:
        body = self.body()
        number, answer = body.get("id"), body.get("answer")
        if type(number) is not int or not 0 < number < 10**9 or answer not in _ANSWERS:
            raise Refused(400, f"Give 'id', a number, and 'answer', one of {', '.join(_ANSWERS)}.")
        await self.forward("POST", f"session/help/{number}", {"answer": answer})


class Presence:
    """Reports of who is there. ``inside`` returns who has a room open; ``clock`` returns monotonic
    seconds."""

    def __init__(
        self,
        app: Any,
        service: Service,
        owner: str,
        inside: Callable[[], list[str]] = list,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inside = inside
        self._app = app
        self._service = service
        self._owner = owner
        self._clock = clock
        self._opened: float | None = None
        self._reported: Mapping[str, Any] | None = None  # content of the last report
        self._reported_at = 0.0
        self._news = asyncio.Event()
        base = re.escape(app.web_app.settings["base_url"])
        self._page = re.compile(rf"{base}(lab|doc|tree|notebooks)(/(tree|workspaces)/.*)?/?")

    async def run(self) -> None:
        """Run for ever; a failure is tried again at the next look."""
        # Here, since JupyterHub's extension sets its log function after all extensions are loaded.
        self._note_pages(self._app.web_app.settings)
        wait = PERIOD
        while True:
            self._news.clear()  # before the look: news during it is reported at once, too
            try:
                await self.report_news()
                wait = PERIOD
            except ServiceError as error:
                self._app.log.debug("The presence report was not sent: %s", error)
                wait = min(LONGEST, max(2 * wait, error.retry_after))
            except Exception:  # any error: the session goes on
                self._app.log.warning("The presence report failed", exc_info=True)
                wait = LONGEST
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), wait)

    async def report_news(self) -> None:
        """Report to the portal if there is news. Raises ServiceError."""
        now, seen = self._clock(), await self._seen()
        since = now - self._reported_at
        before = self._reported
        same = before is not None and all(
            seen[name] == before[name] for name in ("opened", "notebooks", "people")
        )
        if same and before is not None:
            quiet = seen["activity"] - before["activity"] < 1.0
            if since < (LONGEST if quiet else CALM):
                return
        await in_thread(self._service.ask, "PUT", "session/presence", self._report(seen, now))
        self._reported, self._reported_at = seen, now

    async def _seen(self) -> dict[str, Any]:
        """Return the current state, times by the monotonic clock."""
        sessions = await self._app.session_manager.list_sessions()
        paths = {session["path"] for session in sessions if session.get("type") == "notebook"}
        active = self._app.web_app.last_activity()
        age = max(0.0, (datetime.now(timezone.utc) - active).total_seconds())
        return {
            "opened": self._opened,
            "notebooks": sorted(path[:500] for path in paths if path)[:MOST],
            "people": self._inside(),
            "activity": self._clock() - age,
        }

    def _report(self, seen: Mapping[str, Any], now: float) -> dict[str, Any]:
        opened = seen["opened"]
        return {
            "opened": None if opened is None else round(max(0.0, now - opened), 1),
            "activity": round(max(0.0, now - seen["activity"]), 1),
            "notebooks": seen["notebooks"],
            "people": seen["people"],
        }

    def _note_pages(self, settings: dict[str, Any]) -> None:
        """Record when the owner's browser first loads a page of this session. The Hub's probes
        have no user, and programs send their token in a header, where a browser has a cookie."""
        before = settings.get("log_function")

        def log(handler: Any) -> None:
            if self._opened is None and self._is_opened_by(handler):
                self._opened = self._clock()
                self._news.set()
            if before is not None:
                before(handler)

        settings["log_function"] = log

    def _is_opened_by(self, handler: Any) -> bool:
        request, user = handler.request, getattr(handler, "_jupyter_current_user", None)
        return (
            user is not None
            and getattr(user, "username", "") == self._owner
            and request.method == "GET"
            and handler.get_status() == 200
            and "Authorization" not in request.headers
            and self._page.fullmatch(request.path) is not None
        )
