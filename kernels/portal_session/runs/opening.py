"""Address that opens a file of a run in JupyterLab: the portal's page knows its path, and only the
session's server knows which folder JupyterLab shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web

from ..situation import in_thread
from . import RunError

PATH = "portal/runs/open"
_LONGEST = 1200  # characters


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    base = app.web_app.settings["base_url"]
    arguments = {"root": Path(app.root_dir)}
    app.web_app.add_handlers(".*$", [(url_path_join(base, PATH), OpenFile, arguments)])


class OpenFile(JupyterHandler):
    """``GET …/portal/runs/open?path=…``: leads to JupyterLab with this file."""

    def initialize(self, root: Path) -> None:
        self._root = root

    @web.authenticated
    async def get(self) -> None:
        try:
            relative_path = await in_thread(below, self._root, self.get_query_argument("path", ""))
        except RunError as error:  # the page of a 404 has no sentence
            raise web.HTTPError(400, "%s", str(error)) from None
        self.redirect(url_path_join(self.base_url, "lab/tree", quote(relative_path)))


def below(root: Path, path: str) -> str:
    """Return the path of a file or folder relative to ``root``, for the absolute ``path``. Raises
    RunError if it is not there, or not below ``root``."""
    if not path.startswith("/") or len(path) > _LONGEST or "\0" in path:
        raise RunError("The address names no file.")
    printable_path = path if path.isprintable() else ascii(path)
    try:
        relative = Path(path).resolve().relative_to(root.resolve())
    except (OSError, RuntimeError):
        raise RunError(f"{printable_path} cannot be read.") from None
    except ValueError:
        raise RunError(
            f"{printable_path} is not in {root}, the folder that JupyterLab shows in this session."
        ) from None
    if not (root / relative).exists():
        raise RunError(
            f"{printable_path} does not exist: the point has not started, or the file was deleted."
        )
    return str(relative)
