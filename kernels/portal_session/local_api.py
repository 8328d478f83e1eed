"""Routes that JupyterLab in the browser requests of the session's server, at
``<base_url>portal/``.

The session's token never leaves the server: only the requests to the portal listed here are passed
on. As for all of Jupyter, they are open to anyone who is logged in to this server.
"""

from __future__ import annotations

import asyncio
import json
import os
from http import HTTPStatus
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado.web import HTTPError, authenticated

from .service import Address, Service, ServiceError
from .situation import Situations, in_thread

LARGEST = 16 * 1024  # bytes of a body
AT_A_TIME = 4  # requests passed on at once; more wait
# By path here: methods, and the path below the service's api/v1/.
PASSED_ON = {
    "extend": ("POST", "session/extend"),
    "snooze": ("POST", "session/snooze"),
    "stop": ("POST", "session/stop"),
    "move": ("GET POST DELETE", "session/move"),
    "estimates": ("POST", "session/estimates"),
    "startup": ("POST", "session/startup"),
}
_NO_CHANGE = frozenset({"estimates", "startup"})
# Reports that a page sends once and that may be late: sent again after these pauses, in seconds,
# while the portal cannot take them.
_LATER = {"startup": (5.0, 20.0, 60.0)}
_report_tasks: set[asyncio.Task[None]] = set()  # strong references to running tasks


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    address = Address.from_environ(os.environ)
    service = None if address is None else Service(address, os.environ)
    app.portal_situations = Situations(service, os.environ)
    add_handlers(app.web_app, service, app.portal_situations)


def add_handlers(web_app: Any, service: Service | None, situations: Situations) -> None:
    """Add the routes to jupyter_server's web application."""
    base = web_app.settings["base_url"]
    shared = {"service": service, "situations": situations, "free": asyncio.Semaphore(AT_A_TIME)}
    routes: list[Any] = [
        (url_path_join(base, "portal/situation"), SituationHandler, {"situations": situations})
    ]
    for name in PASSED_ON:
        arguments = {**shared, "name": name}
        routes.append((url_path_join(base, "portal", name), PassOnHandler, arguments))
    web_app.add_handlers(".*$", routes)


class Refused(HTTPError):
    """Error response with a sentence, and the ``field`` that it is about, if it is one. tornado's
    own message is a format, where % means something."""

    def __init__(self, status: int, sentence: str, field: str = "") -> None:
        super().__init__(status)
        self.sentence, self.field = sentence, field

    @classmethod
    def by_portal(cls, error: ServiceError) -> Refused:
        """Return the error for what the portal has refused."""
        return cls(error.status, str(error), error.field)


class LocalHandler(APIHandler):
    """Base class: errors are JSON with a sentence; requests do not count as activity."""

    auth_resource = "portal"
    largest = LARGEST
    # An open status bar would keep an idle session alive (jupyter_server, APIHandler).
    _track_activity = False

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")

    def compute_etag(self) -> None:
        return None

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Write the error as Jupyter does, without logging a warning whenever the portal
        refuses."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        field = {}
        if isinstance(error, Refused):
            message = error.sentence
            field = {"field": error.field} if error.field else {}
        elif status_code < 500:
            phrase = HTTPStatus(status_code).phrase
            message = f"This session's server refused the request: {phrase}."
        else:
            message = "This session's server failed. See its log."
        self.finish(json.dumps({"message": message, **field}))

    def check_owner(self) -> None:
        """Raise Refused for a guest of this session."""
        if getattr(self, "portal_guest", ""):
            raise Refused(403, "Only the owner of this session can do this.")

    def body(self) -> dict[str, Any]:
        """Return the request's JSON object. Raises Refused."""
        if len(self.request.body) > self.largest:
            raise Refused(413, f"The body is longer than {self.largest} bytes.")
        return json_object(self.request.body)


class SituationHandler(LocalHandler):
    """``GET portal/situation``: see Situations.answer."""

    def initialize(self, situations: Situations) -> None:
        self.situations = situations

    @authenticated
    @authorized
    async def get(self) -> None:
        # Named to a person in a session that is not their own.
        guest = getattr(self, "portal_guest", "")
        self.finish(json.dumps({**await self.situations.answer(), "guest": guest}))


class PassOnHandler(LocalHandler):
    """Proxy of a request to the portal's service, with the session's token."""

    def initialize(
        self, service: Service | None, situations: Situations, free: asyncio.Semaphore, name: str
    ) -> None:
        self.service, self.situations, self.free = service, situations, free
        self.name = name
        methods, self.path = PASSED_ON[name]
        self.methods = methods.split()

    @authenticated
    @authorized
    async def get(self) -> None:
        await self._pass_on(None)

    @authenticated
    @authorized
    async def post(self) -> None:
        await self._pass_on(self.body())

    @authenticated
    @authorized
    async def delete(self) -> None:
        await self._pass_on(None)

    async def _pass_on(self, body: dict[str, Any] | None) -> None:
        method = self.request.method
        if method not in self.methods:
            raise Refused(405, f"This address supports only {', '.join(self.methods)}.")
        if method != "GET":
            self.check_owner()
        if self.service is None:
            raise Refused(503, "The portal's address is not set in this session.")
        try:
            async with self.free:
                response = await in_thread(self.service.ask, method, self.path, body)
        except ServiceError as error:
            if error.status != 503 or self.name not in _LATER:
                raise Refused.by_portal(error) from None
            task = asyncio.ensure_future(self._tell_later(self.service, body))
            _report_tasks.add(task)
            task.add_done_callback(_report_tasks.discard)
            self.set_status(202)
            response = {}
        finally:
            if method != "GET" and self.name not in _NO_CHANGE:
                self.situations.outdate()
        self.finish(json.dumps(response))

    async def _tell_later(self, service: Service, body: dict[str, Any] | None) -> None:
        for seconds in _LATER[self.name]:
            await asyncio.sleep(seconds)
            try:
                await in_thread(service.ask, "POST", self.path, body)
                return
            except ServiceError as error:
                if error.status != 503:
                    return


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a request's body; {} for an empty one. Raises Refused if it is not a JSON object."""
    try:
        payload = json.loads(body or b"{}")
        json.dumps(payload, allow_nan=False)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise Refused(400, "The body is not a JSON object.")
    return payload
