"""Routes to the programs of a session: instead of JupyterLab at ``portal/program/``, beside it at
``portal/programs/NAME/``, where the first request starts it."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Mapping
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from tornado import web

from .late import LateProxy
from .program import Program
from .runtime import Runtime

_PROXY = f"{__package__}.program_proxy:ProgramProxy"


def add_handlers(
    app: Any, instead: Mapping[str, Any] | None, beside: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add the routes to ``app``, jupyter_server's ServerApp, and start the program that the
    session opens ``instead`` of JupyterLab."""
    programs = Programs(app, beside)
    atexit.register(programs.stop)
    base = re.escape(programs.base)
    late = LateProxy(app.web_app, _PROXY, programs.given, "A program")
    names = "|".join(map(re.escape, beside))
    app.web_app.add_handlers(".*", [(f"{base}programs/(?:{names})", AddSlash)])
    late.add_route(f"{base}programs/({names})/(.*)")
    if instead is not None:
        program = programs.start("", instead)
        home = re.escape(app.web_app.settings["base_url"])
        given = {"program": program}
        app.web_app.add_handlers(".*", [(f"(?:{home}|{base}program)", Home, given)])
        first = LateProxy(app.web_app, _PROXY, lambda: given, program.title)
        first.add_route(f"{base}program/(.*)")
        first.begin()


class Programs:
    """Programs of the session, started on first use. ``definitions``: those beside JupyterLab."""

    def __init__(self, app: Any, definitions: Mapping[str, Mapping[str, Any]]) -> None:
        self.base = app.web_app.settings["base_url"] + "portal/"
        self._folder, self._definitions = app.root_dir, definitions
        self._runtime: Runtime | None = None
        self._programs: dict[str, Program] = {}

    def given(self, name: str) -> dict[str, Any] | None:
        """Return the arguments of the proxy to a program beside JupyterLab; None if there is
        none of this name."""
        definition = self._definitions.get(name)
        if definition is None:
            return None
        return {"program": self._programs.get(name), "start": lambda: self.start(name, definition)}

    def start(self, name: str, definition: Mapping[str, Any]) -> Program:
        """Start a program, once; "" is the name of the one instead of JupyterLab. Raises OSError
        with a sentence if there is no folder for it."""
        if name not in self._programs:
            if self._runtime is None:
                self._runtime = Runtime.make(os.environ)
            path = f"programs/{name}/" if name else "program/"
            directory = self._runtime.claim().path if name else self._runtime.path
            self._programs[name] = Program(
                definition, directory, self.base + path, self._folder, os.environ
            )
            self._programs[name].start()
        return self._programs[name]

    def stop(self) -> None:
        """End all of them with the session."""
        for program in self._programs.values():
            program.stop()
        if self._runtime is not None:
            self._runtime.remove()


class AddSlash(JupyterHandler):
    @web.authenticated
    def get(self) -> None:
        query = f"?{self.request.query}" if self.request.query else ""
        self.redirect(f"{self.request.path}/{query}")


class Home(JupyterHandler):
    def initialize(self, program: Program) -> None:
        self.program = program

    @web.authenticated
    def get(self) -> None:
        self.redirect(self.program.base)
