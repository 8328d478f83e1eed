"""Starter notebooks: fetched from the portal and put into ``~/portal-starters/ENVIRONMENT``.

Copied at the first session in an environment that names some, and again on request; existing files
are never overwritten. A notebook that was copied once and then removed comes back on request only.
JupyterLab opens the first of them by itself, in that session and only once.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from ..local_api import LocalHandler, Refused
from ..service import Address, Service, ServiceError
from ..situation import in_thread
from .new_file import write_new

VARIABLE = "PORTAL_STARTERS"  # "1": the environment names some
FOLDER = "portal-starters"  # in the home
GIVEN = "starters.json"  # below PYTHONUSERBASE: the names that were copied already
LARGEST = 100_000  # bytes of one notebook
MOST = 50
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\.(ipynb|py)")
_ENVIRONMENT = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
_CITED = re.compile(r"`([\w-]+\.ipynb)`")
_BOARD = "TensorBoard"
_PATIENCE = 30.0  # seconds that a page waits for the first copies
_PAUSES = (2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)  # the portal sees a new session after a moment


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    address = Address.from_environ(os.environ)
    starters = None
    if address is not None and os.environ.get(VARIABLE):
        starters = Starters(Service(address, os.environ), os.environ, Path.home(), app.log)
        threading.Thread(target=starters.give, name="starters", daemon=True).start()
    path = url_path_join(app.web_app.settings["base_url"], "portal", "starters")
    shared = {"starters": starters, "root": Path(app.root_dir)}
    app.web_app.add_handlers(
        ".*$", [(path, StartersHandler, shared), (f"{path}/first", FirstStarterHandler, shared)]
    )


class Starters:
    """Copies of the starter notebooks. Every method blocks, and is called by one thread at a
    time."""

    def __init__(self, service: Any, environ: Mapping[str, str], home: Path, log: Any) -> None:
        self._service = service
        self._home = home
        self._log = log
        self._lock = threading.Lock()
        base = environ.get("PYTHONUSERBASE", "")
        self._given_file = Path(base) / GIVEN if base else None
        self._is_first = not self._given()  # the user's first session of this environment
        self._tried = threading.Event()
        self._first = ""
        self.pauses = _PAUSES

    def give(self) -> None:
        """Copy what was not given before, at the session's start. Raises nothing."""
        try:
            self._give()
        finally:
            self._tried.set()

    def take_first(self) -> str:
        """Return the path, below the home, of the notebook with which the user's first session of
        this environment opens: once, and "" in any other session. Waits until it is there."""
        if self._is_first:
            self._tried.wait(_PATIENCE)
        with self._lock:
            first, self._first = self._first, ""
        return first

    def _give(self) -> None:
        for pause in self.pauses:
            time.sleep(pause)
            try:
                done = self.copy(again=False)
                if self._is_first and done["copied"]:
                    self._first = f"{done['folder']}/{done['copied'][0]}"
            except ServiceError as error:
                problem: object = error
            except OSError as error:
                self._log.warning("The starter notebooks could not be copied: %s", error.strerror)
                return
            else:
                return
        self._log.info("The starter notebooks were not copied: %s", problem)

    def copy(self, *, again: bool) -> dict[str, Any]:
        """Copy notebooks; return ``folder``, and the names ``copied`` and ``there`` (existing
        already).

        ``again``: also those that were given before. Raises ServiceError, OSError.
        """
        with self._lock:
            answer = self._service.ask("GET", "session/starters")
            environment, names = answer.get("environment"), answer.get("starters")
            if not isinstance(environment, str) or not _ENVIRONMENT.fullmatch(environment):
                raise ServiceError("The portal's answer cannot be read.")
            offered = names if isinstance(names, list) else []
            names = [str(entry) for entry in offered if _NAME.fullmatch(str(entry))][:MOST]
            given = self._given()
            copied, existing = [], []
            for name in names:
                if name in given and not again:
                    continue
                text = self._service.ask("GET", f"session/starters/{name}").get("text")
                if not isinstance(text, str) or len(text.encode()) > LARGEST:
                    raise ServiceError("The portal's answer cannot be read.")
                text = without_lacking(text, names)
                new = write_new(self._home, (FOLDER, environment), name, text)
                (copied if new else existing).append(name)
                given.add(name)
                self._note(given)
            return {"folder": f"{FOLDER}/{environment}", "copied": copied, "there": existing}

    def _given(self) -> set[str]:
        if self._given_file is None:
            return set()
        try:
            names = json.loads(self._given_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return set()
        return (
            {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
        )

    def _note(self, given: set[str]) -> None:
        if self._given_file is None:
            return
        self._given_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._given_file.with_name(f".{GIVEN}.{os.getpid()}")
        new.write_text(json.dumps(sorted(given)), encoding="utf-8")
        new.replace(self._given_file)


def without_lacking(text: str, names: Collection[str]) -> str:
    """Return a notebook without the paragraphs that name what this session lacks: TensorBoard, and
    notebooks other than ``names``. Text that is no notebook is returned unchanged."""
    has_board = importlib.util.find_spec(_BOARD.lower()) is not None
    try:
        notebook = json.loads(text)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                paragraphs = "".join(cell["source"]).split("\n\n")
                kept = [
                    paragraph
                    for paragraph in paragraphs
                    if (has_board or _BOARD not in paragraph)
                    and set(_CITED.findall(paragraph)) <= set(names)
                ]
                if kept != paragraphs:
                    cell["source"] = "\n\n".join(kept)
    except (ValueError, RecursionError, TypeError, LookupError):
        return text
    return json.dumps(notebook, indent=1) + "\n"


class _Handler(LocalHandler):
    """Base class of the handlers. ``root``: the server's folder."""

    def initialize(self, starters: Starters | None, root: Path) -> None:
        self.starters, self.root = starters, root


class StartersHandler(_Handler):
    """``POST portal/starters``: copies missing notebooks; see Starters.copy."""

    @authenticated
    @authorized
    async def post(self) -> None:
        if self.starters is None:
            raise Refused(404, "The environment of this session has no starter notebooks.")
        try:
            done = await in_thread(lambda: self.starters.copy(again=True))
        except ServiceError as error:
            raise Refused(error.status, str(error)) from None
        except OSError as error:
            raise Refused(
                409, f"The notebooks cannot be copied to ~/{FOLDER}: {error.strerror}."
            ) from None
        self.finish(json.dumps(done))


class FirstStarterHandler(_Handler):
    """``POST portal/starters/first``: takes the notebook that JupyterLab opens by itself."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer ``path``, below the server's folder; "" if none is to be opened."""
        self.check_owner()
        first = await in_thread(self.starters.take_first) if self.starters else ""
        try:
            path = (Path.home().resolve() / first).relative_to(self.root.resolve()).as_posix()
        except ValueError:
            path = ""
        self.finish(json.dumps({"path": path if first else ""}))
