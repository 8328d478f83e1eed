"""Route by which the portal's service asks a user's session for what the page *New run* shows, and
has it start the run: only the session reads the user's files, as in JupyterLab's dialog."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from jupyterhub import orm

from portal.errors import InvalidRequest, NotFound, PortalError, Unavailable
from portal.spaces.registry import requested_space

from ..session import kind_of_row, space_of_row
from ..session_server import ask_server
from .moves import MovesBase

MAX_BODY = 128 * 1024  # bytes
_LARGEST = 2 * 1024 * 1024  # bytes of an answer: a folder with thousands of files
_SECONDS = 25.0  # for an answer: the service waits for 30
# By part of the form: the method, and the route of the session's server (portal_session/runs/lab;
# Jupyter's own for the files of a folder).
_ROUTES = {
    "choices": ("GET", "portal/runs"),
    "unfinished": ("GET", "portal/runs/unfinished"),
    "source": ("GET", "portal/runs/source"),
    "files": ("GET", "api/contents"),
    "points": ("POST", "portal/runs/points"),
    "estimate": ("POST", "portal/runs/estimate"),
    "start": ("POST", "portal/runs"),
}


def _is_own(row: orm.Spawner) -> bool:
    """Return True for a session of its user alone, which may be for a project."""
    return not space_of_row(row) or requested_space(row.user_options or {}).offered


class RunFormHandler(MovesBase):
    """``/hub/api/portal/run-form/PART/USER/SERVER``: ask the server of a session (GET with
    ``path``, POST with a JSON object); the answer has its ``status`` and its ``content``."""

    async def get(self, part: str, user: str, server: str) -> None:
        await self._ask("GET", part, user, server, None)

    async def post(self, part: str, user: str, server: str) -> None:
        try:
            body = json.loads(self.request.body) if len(self.request.body) <= MAX_BODY else None
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            self.refuse(InvalidRequest("The body must be a JSON object, and not too long."))
            return
        await self._ask("POST", part, user, server, body)

    async def _ask(self, method: str, part: str, user: str, server: str, body: Any) -> None:
        try:
            spawner = self._spawner(user, server)
            known, route = _ROUTES.get(part, ("", ""))
            if known != method:
                raise NotFound("There is no such part of the form.")
            answer = await ask_server(
                spawner,
                spawner.server.url,
                f"{route}{self._rest(part)}",
                method,
                body,
                seconds=_SECONDS,
                note="New run",
                largest=_LARGEST,
            )
            if answer is None:
                raise Unavailable(
                    "Your session does not answer. Open it to see whether it works, or choose "
                    "another one. If you have just started a run, check the list of runs first."
                )
        except PortalError as error:
            self.refuse(error)
            return
        self.answer({"status": answer.status, "content": answer.content})

    def _rest(self, part: str) -> str:
        """Return what follows the route: the path of a file or folder of the session."""
        path = self.get_query_argument("path", "")
        if part == "files":
            names = [name for name in path.split("/") if name not in ("", ".", "..")]
            folder = "/".join(quote(name, safe="") for name in names)
            return f"/{folder}?{urlencode({'type': 'directory', 'content': 1})}"
        if part == "source":
            more = {
                name: self.get_query_argument(name, "") for name in ("first_cell", "in_project")
            }
            return f"?{urlencode({'path': path, **more})}"
        return ""

    def _spawner(self, name: str, server: str) -> Any:
        """Return the running session of a user's own. Raises NotFound for one that does not run or
        starts no runs."""
        user = self.find_user(name)
        row = None if user is None else user.orm_user.orm_spawners.get(server)
        if user is None or row is None or not kind_of_row(row).job_kernels or not _is_own(row):
            raise NotFound("There is no such session.")
        spawner = user.spawners[server]
        if not spawner.ready or spawner.server is None:
            raise NotFound("This session does not run.")
        return spawner
