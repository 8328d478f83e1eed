"""Handouts of a course, brought into the folder ``~/COURSE`` at the session's start and whenever
there are new ones; and the folders that it collects (portal_session.course.collecting).

Nothing here blocks the server: a task waits, a thread works, git is a program of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..service import Address, Service, ServiceError
from ..situation import in_thread
from .collecting import Collecting

PERIOD = 5.0  # seconds between two looks at the session's situation
RETRIES = (5.0, 300.0)  # seconds until the second try, and the longest pause
MERGE = 300.0  # seconds that git may take
ISOLATED = "-I"  # keeps a student's PYTHONPATH and packages out of the server
NO_GIT = "This environment has no git, so the course's handouts cannot be copied to this session."
NO_PULLER = "This environment has no nbgitpuller, so the handouts cannot be copied to this session."


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension, after ``local_api``. ``app`` is jupyter_server's ServerApp."""
    address, course = Address.from_environ(os.environ), os.environ.get("PORTAL_COURSE", "")
    situations = getattr(app, "portal_situations", None)
    if address is None or not course or situations is None:
        return
    service, home = Service(address, os.environ), Path.home()
    handouts = Handouts(service, course, home, app.log)
    work = Coursework(situations, handouts, Collecting(service, home, app.log), app.log)
    app.portal_coursework = work
    app.io_loop.spawn_callback(work.run)


class Coursework:
    """Polling of the situation, so that ``handouts`` and ``collecting`` do what it asks for."""

    def __init__(self, situations: Any, handouts: Any, collecting: Any, log: Any) -> None:
        self._situations = situations
        self._parts = (handouts, collecting)
        self._log = log

    async def run(self) -> None:
        """Run for ever; raises nothing."""
        await asyncio.gather(*(self._keep(part) for part in self._parts))

    async def _keep(self, part: Any) -> None:
        while True:
            pause = PERIOD
            try:
                situation = (await self._situations.answer())["situation"] or {}
                course = situation.get("course") or {}
                pause = max(PERIOD, await in_thread(part.apply_situation, course))
            except Exception:  # any error: the session goes on, the next look may work
                self._log.warning("The check of the course's files failed", exc_info=True)
            await asyncio.sleep(pause)


class Handouts:
    """Folder of handouts. ``apply_situation`` blocks: call it in a thread."""

    def __init__(
        self,
        service: Any,
        course: str,
        home: Path,
        log: Any,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._service = service
        self._log = log
        self._environ = environ
        self.folder = home / course
        self._state = home / ".portal" / f"{course}.handouts"
        self._brought = ""  # by this server: its start also restores deleted files
        self._reported: dict[str, str] = {}
        self._wait = RETRIES[0]

    def apply_situation(self, course: Mapping[str, Any]) -> float:
        """Bring the revision that the situation names, if it is missing; return the seconds until
        the next look makes sense. Raises nothing but bugs."""
        wanted = str(course.get("handout") or "")
        if not wanted or wanted == self._brought:
            return 0.0
        try:
            result = self._bring()
        except ServiceError as error:
            self._log.warning("The handouts could not be fetched: %s", error)
            result = {"error": f"The handouts could not be fetched: {error}"}
        if "error" in result:
            self._log.warning("Handouts: %s", result["error"])
            self._tell(self._base(), result["error"])
            wait, self._wait = self._wait, min(2 * self._wait, RETRIES[1])
            return wait
        self._wait = RETRIES[0]
        self._brought = wanted
        self._keep(result["revision"])
        self._log.info(
            "Handouts: updated to revision %s. %s", result["revision"], result["message"]
        )
        self._tell(result["revision"], result["message"])
        return 0.0

    def _bring(self) -> dict[str, str]:
        """Return the merge's result: see portal_session.course.merging. Raises ServiceError."""
        if shutil.which("git", path=self._environ.get("PATH")) is None:
            return {"error": NO_GIT}
        with tempfile.TemporaryDirectory(prefix="portal-handouts-") as place:
            bundle = Path(place) / "handouts.bundle"
            self._service.download("session/handouts", bundle)
            argv = [sys.executable, ISOLATED, "-m", "portal_session.course.merging"]
            argv += [str(bundle), str(self.folder), self._base()]
            # Yields to the servers of a class that start at the same moment on the same node.
            if nice := shutil.which("nice", path=self._environ.get("PATH")):
                argv = [nice, "-n", "10", *argv]
            try:
                done = subprocess.run(
                    argv,
                    env=dict(self._environ),
                    cwd=self.folder.parent,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=MERGE,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {"error": f"git did not merge the handouts within {MERGE:.0f} s."}
            except OSError as error:
                return {"error": f"git could not be started: {error.strerror}."}
        stderr = done.stderr.decode("utf-8", "replace")
        self._log.debug("Handouts: %s", stderr)
        if "No module named 'nbgitpuller'" in stderr:
            return {"error": NO_PULLER}
        try:
            result = json.loads(done.stdout)
            return {str(name): str(value) for name, value in result.items()}
        except (ValueError, AttributeError):
            self._log.warning("The merge of the handouts failed: %s", stderr[-2000:])
            return {
                "error": "The handouts could not be merged. The session's log gives the reason."
            }

    def _base(self) -> str:
        """Return the revision that was brought last; "" for none."""
        try:
            return self._state.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""

    def _keep(self, revision: str) -> None:
        try:
            self._state.parent.mkdir(mode=0o700, exist_ok=True)
            new = self._state.with_suffix(".new")
            new.write_text(f"{revision}\n", encoding="ascii")
            new.replace(self._state)
        except OSError as error:
            self._log.warning("%s could not be written: %s", self._state, error.strerror)

    def _tell(self, revision: str, message: str) -> None:
        """Report to the course's board, unless it was told the same before."""
        report = {"revision": revision, "message": message[:1000]}
        if report == self._reported:
            return
        try:
            self._service.ask("PUT", "session/handouts/report", report)
            self._reported = report
        except ServiceError as error:
            self._log.warning("The handouts' state was not reported to the portal: %s", error)
