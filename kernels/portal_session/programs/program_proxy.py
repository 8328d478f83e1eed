"""Proxy to a program that the portal has defined (`program`)."""

from __future__ import annotations

from collections.abc import Callable

from tornado.web import HTTPError

from .page import write_page
from .program import Program
from .proxy import SessionProxy
from .target import Target


class ProgramProxy(SessionProxy):
    """``portal/program/…`` or ``portal/programs/NAME/…``. ``start`` starts the program if there is
    none yet, for whoever is logged in to the session."""

    def initialize(
        self, program: Program | None = None, start: Callable[[], Program] | None = None
    ) -> None:
        self._known, self._start = program, start

    @property
    def _program(self) -> Program:
        if self._known is None:
            assert self._start is not None
            try:
                self._known = self._start()
            except OSError as error:  # no folder for its socket
                raise HTTPError(503, str(error)) from error
        return self._known

    @property
    def title(self) -> str:
        return self._program.title

    def target(self) -> Target | None:
        return self._program.target()

    def answered(self, path: str) -> bool:
        """Answer with a page in place of the program's: it reloads until the program answers, or
        says why it ended."""
        program = self._program
        if program.answers:
            return False
        if "again" in self.request.query_arguments:
            program.start()
            self.redirect(program.base)
            return True
        self.set_status(200 if program.runs else 503)
        if program.runs:
            write_page(self, program.title, f"{program.title} is starting…", again=True)
        else:
            words = f"{program.title} has ended. Its last output:"
            write_page(self, program.title, words, output=program.output())
        return True
