"""Proxies that are imported on first use: sessions start without them."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Callable

from jupyter_server.base.handlers import JupyterHandler
from tornado import web
from tornado.httputil import HTTPServerRequest
from tornado.routing import PathMatches, Router, Rule

from .page import write_page

NO_PROXY = (
    "{title} cannot be opened in this environment. Run 'pip install "
    '"portal-session[tensorboard]"\' when you build the environment.'
)


class LateProxy(Router):
    """Router that imports ``handler`` (module:class), in a thread, on first use; until then
    requests wait. ``given`` returns its arguments for the parts of the path before the last; None
    if there is no such program."""

    def __init__(
        self, web_app: Any, handler: str, given: Callable[..., Mapping[str, Any] | None], title: str
    ) -> None:
        self._web_app, self._given, self._title = web_app, given, title
        self._module, _, self._class = handler.partition(":")
        self._import: Future[Any] | None = None

    def add_route(self, pattern: str) -> None:
        """Route paths that match ``pattern`` here: jupyter_server takes handlers only, tornado
        routers too."""
        web.Application.add_handlers(self._web_app, ".*", [Rule(PathMatches(pattern), self)])

    def begin(self) -> Future[Any]:
        """Start the import, unless it has been started."""
        if self._import is None:
            self._import = Future()
            threading.Thread(target=_run, args=(self._import, self._module), daemon=True).start()
        return self._import

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        *names, path = (value.decode() for value in kwargs["path_args"])
        given = self._given(*names)
        if given is None:
            return None
        imported = self.begin()
        if imported.done() and imported.exception() is None:
            handler = getattr(sys.modules[self._module], self._class)
        else:
            handler, given = BeforeProxy, {"title": self._title, "imported": imported}
        return self._web_app.get_handler_delegate(
            request, handler, target_kwargs=given, path_args=[path.encode()]
        )


def _run(result: Future[Any], module: str) -> None:
    try:
        result.set_result(importlib.import_module(module))
    except BaseException as error:  # of a package of the user's, too
        result.set_exception(error)


class BeforeProxy(JupyterHandler):
    """Stand-in for a proxy until it is imported: then it redirects the browser to the same
    address."""

    def initialize(self, title: str, imported: Future[Any]) -> None:
        self.title, self.imported = title, imported

    def check_xsrf_cookie(self) -> None:
        """Skip the check, since nothing is changed here."""

    @web.authenticated
    async def get(self, path: str) -> None:
        await asyncio.wait([asyncio.wrap_future(self.imported)])
        error = self.imported.exception()
        if error is None:
            self.redirect(self.request.uri or "", status=307)
            return
        self.log.error("The proxy for %s cannot be imported: %r", self.title, error)
        self.set_status(503)
        write_page(self, self.title, NO_PROXY.format(title=self.title))

    post = get
