"""Routes for the dialog, at ``<base_url>portal/runs``: choices, unfinished runs, parameters of a
file, number of points, estimate, start.

Files are read and written in threads; the portal is asked with the session's token.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from concurrent.futures import Future
from http import HTTPStatus
from pathlib import Path
from typing import Any, Callable

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from ...local_api import LocalHandler, Refused
from ...portal_error import Patience, PortalError
from ...project_files import folder_of
from ...service import ServiceError
from ...situation import in_thread
from .. import RunError, about
from ..asked_points import read_points
from ..own_runs import runs_of, unfinished
from ..parameters import declared
from ..plan import name_after
from ..request import read_request, source_path
from ..routes import SUBMISSION, service_path
from ..source import Source, read_source, with_first_cell
from ..start import Started, refused, start
from .cell_script import cell_script, check_code, script_path

_PATIENCE = 60.0  # seconds that the dialog waits while the portal is away
_AT_A_TIME = 4  # requests that read files at once; more wait
_MOST_STARTS = 100  # whose answers are kept

Ask = Callable[..., dict[str, Any]]


class RunDialog:
    """Objects that the handlers share. ``ask_service`` sends a method, a path and a body to the
    service, and blocks; ``root`` is the server's folder."""

    def __init__(self, ask_service: Ask, root: Path) -> None:
        self.ask_service, self.root = ask_service, root
        self.free = asyncio.Semaphore(_AT_A_TIME)
        self._starts: dict[Any, tuple[dict[str, Any], Future[dict[str, Any]]]] = {}
        self._lock = threading.Lock()

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send the service a request that has a path of the broker. Raises ServiceError."""
        return self.ask_service(method, service_path(method, path), body)

    def root_of(self, in_project: Any) -> Path:
        """Return the folder that a path begins in: the server's or, if it is of a project's file,
        where that project's files are for this session."""
        return folder_of(os.environ) if in_project else self.root

    def file_facts(
        self, path: str, first_cell: bool = False, in_project: bool = False
    ) -> dict[str, Any]:
        """Return the name for a run of this file, its SHA-256, and its parameters; null of a
        script, which takes any. ``first_cell``: as of a RunRequest. Raises RunError."""
        with about("source"):
            source = read_source(source_path(path, self.root_of(in_project)))
            if first_cell:
                source = with_first_cell(source)
            parameters = declared(source)
        return {
            "name": name_after(source.path),
            "sha256": source.sha256,
            "parameters": None
            if parameters is None
            else [parameter._asdict() for parameter in parameters.values()],
        }

    def unfinished(self) -> dict[str, Any]:
        """Return the user's runs that a new one can start after; of a space's session, those of
        the space. Raises RunError."""
        try:
            return {"items": unfinished(runs_of(self))}
        except PortalError as error:
            raise refused(error) from None

    def points(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the number of points of a request. Raises RunError."""
        path = source_path(body.get("source"), self.root)
        cell = None
        if body.get("cell") is not None:  # its script is written when the run is started
            path = script_path(path)
            cell = Source(path, check_code(body["cell"]).encode(), None)
        asked = read_points(read_request({**body, "resources": None}, path), cell)
        return {"points": len(asked.points)}

    def start(self, body: dict[str, Any]) -> dict[str, Any]:
        """Start the run of a request; return it with its folder, relative to the server's, ""
        outside. A page that got no answer sends a request with an ``id`` again: it gets the answer
        to the first one. Raises RunError."""
        id = str(body.get("id") or "")
        if not id:
            return self._start(body)
        with self._lock:
            first, answer = self._starts.setdefault(id, (body, Future()))
            for other in list(self._starts)[:-_MOST_STARTS]:
                del self._starts[other]
        if first is not body:
            if first != body:
                raise RunError(
                    "This page has started a run already, with other values: see your list of "
                    "runs. To start another one, reload this page."
                )
            return answer.result()
        try:
            answer.set_result(self._start(body))
        except BaseException as error:
            with self._lock:  # nothing was started: it may be sent again
                self._starts.pop(id, None)
            answer.set_exception(error)
        return answer.result()

    def _start(self, body: dict[str, Any]) -> dict[str, Any]:
        path = source_path(body.get("source"), self.root_of(body.get("in_project")))
        if body.get("cell") is None:
            started = self._begin(body, path)
        else:
            with cell_script(check_code(body["cell"]), path) as script:
                started = self._begin(body, script)
        return {
            "id": started.plan.id,
            "name": started.plan.name,
            "points": started.plan.points,
            "at_once": started.at_once,
            "folder": _below(started.plan.folder, self.root),
            "message": started.message,
            "after": started.after,
        }

    def _begin(self, body: dict[str, Any], source: Path) -> Started:
        try:
            portal = Patience(self.ask, _PATIENCE)
            return start(read_request(body, source), portal, os.environ)
        except PortalError as error:
            raise refused(error) from None


def _below(folder: Path, root: Path) -> str:
    try:
        return folder.relative_to(root.resolve()).as_posix()
    except ValueError:
        return ""


class _Handler(LocalHandler):
    """Base class of the handlers, for the session's owner only."""

    largest = 512 * 1024  # bytes of a body: it may have the code of a cell

    def initialize(self, dialog: RunDialog) -> None:
        self.dialog = dialog

    async def passed_on(self, *request: Any) -> None:
        """Answer as the service does. Raises Refused."""
        try:
            self.finish(json.dumps(await in_thread(self.dialog.ask_service, *request)))
        except ServiceError as error:
            raise Refused.by_portal(error) from None

    async def answered(self, function: Callable[..., dict[str, Any]], *given: Any) -> None:
        """Answer what ``function`` returns, in a thread; a RunError with its sentence and field."""
        try:
            async with self.dialog.free:
                answer = await in_thread(function, *given)
        except RunError as error:
            self.set_status(HTTPStatus.BAD_REQUEST)
            answer = {"message": str(error), "field": error.field}
        self.finish(json.dumps(answer))

    def body(self) -> dict[str, Any]:
        """Return the request's JSON object. Raises Refused."""
        self.check_owner()
        return super().body()


class RunsHandler(_Handler):
    """``portal/runs``: what can be chosen, and the start of a run."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer the environments, the fields of resources, and the address of the pages."""
        self.check_owner()
        await self.passed_on("GET", f"{SUBMISSION}/choices")

    @authenticated
    @authorized
    async def post(self) -> None:
        """Start a run; see `RunDialog.start`."""
        await self.answered(self.dialog.start, self.body())


class UnfinishedHandler(_Handler):
    """``portal/runs/unfinished``: the runs that a new one can start after."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer `RunDialog.unfinished`."""
        self.check_owner()
        await self.answered(self.dialog.unfinished)


class SourceHandler(_Handler):
    """``portal/runs/source?path=…&first_cell=1``: name and parameters of a notebook or script."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer `RunDialog.file_facts`."""
        self.check_owner()
        first_cell = self.get_query_argument("first_cell", "") == "1"
        in_project = self.get_query_argument("in_project", "") == "1"
        path = self.get_query_argument("path", "")
        await self.answered(self.dialog.file_facts, path, first_cell, in_project)


class PointsHandler(_Handler):
    """``portal/runs/points``: the number of points of a request."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer `RunDialog.points`."""
        await self.answered(self.dialog.points, self.body())


class EstimateHandler(_Handler):
    """``portal/runs/estimate``: when the first point would start."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer the portal's estimate for the body's ``options``."""
        options = self.body().get("options")
        if not isinstance(options, dict):
            raise Refused(400, "'options' must be a JSON object.")
        await self.passed_on("POST", f"{SUBMISSION}/estimates", {"options": options})


def routes(base: str, ask: Ask, root: Path) -> list[Any]:
    """Return the routes below the server's ``base`` URL. ``root``: the server's folder."""
    handlers = {
        "": RunsHandler,
        "unfinished": UnfinishedHandler,
        "source": SourceHandler,
        "points": PointsHandler,
        "estimate": EstimateHandler,
    }
    shared = {"dialog": RunDialog(ask, root)}
    return [
        (url_path_join(base, "portal/runs", path).rstrip("/"), handler, shared)
        for path, handler in handlers.items()
    ]
