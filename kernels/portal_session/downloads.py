"""Server extension for the download of a folder at ``portal/download``, as a tar file that is sent
while it is made. Of single files, jupyter_server sends what is asked for (`Range`)."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.iostream import StreamClosedError
from tornado.web import authenticated

from .local_api import LocalHandler, Refused
from .situation import in_thread

AT_A_TIME = 4  # folders that are sent
_AT_ONCE = 256 * 1024  # bytes that are sent at once
_WITHOUT = "This environment has no program 'tar'. Download from a session of another one."


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    path = url_path_join(app.web_app.settings["base_url"], "portal", "download")
    given = {"root": Path(app.root_dir), "sent": set()}
    app.web_app.add_handlers(".*$", [(path, DownloadHandler, given)])


class DownloadHandler(LocalHandler):
    """``GET portal/download?folder=PATH``; with ``check=yes``, whether it would be sent."""

    _tar: asyncio.subprocess.Process | None = None

    def initialize(self, root: Path, sent: set[DownloadHandler]) -> None:
        self.root, self.sent = root, sent

    @authenticated
    @authorized
    async def get(self) -> None:
        self.check_owner()
        folder = await in_thread(_folder, self.root, self.get_query_argument("folder", ""))
        program = shutil.which("tar")
        if program is None:
            raise Refused(503, _WITHOUT)
        if self.get_query_argument("check", ""):
            return self.finish(json.dumps({"folder": str(folder)}))
        if len(self.sent) >= AT_A_TIME:
            raise Refused(503, f"{AT_A_TIME} folders are being sent. Wait until one is complete.")
        self.sent.add(self)
        try:
            await self._send(program, folder)
        finally:
            self.sent.discard(self)
            self._end()

    async def _send(self, program: str, folder: Path) -> None:
        """Send the tar file. If something cannot be read, the connection ends without the end of
        the file, so that the browser does not take it for complete."""
        argv = [program, "-cf", "-", "-C", str(folder.parent), f"./{folder.name}"]
        pipes = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE}
        self._tar = tar = await asyncio.create_subprocess_exec(*argv, **pipes)
        assert tar.stdout is not None
        self.set_header("Content-Type", "application/x-tar")
        name = quote(f"{folder.name}.tar", safe="")
        self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{name}")
        try:
            while piece := await tar.stdout.read(_AT_ONCE):
                self.write(piece)
                await self.flush()  # waits for the browser
        except StreamClosedError:
            return
        if code := await tar.wait():
            if code > 0:
                self.log.warning("%s was not sent as a whole: see the lines of tar above.", folder)
            self.request.connection.close()  # type: ignore[union-attr]
            return
        await self.finish()

    def on_connection_close(self) -> None:
        self._end()
        super().on_connection_close()

    def _end(self) -> None:
        if self._tar is not None and self._tar.returncode is None:
            self._tar.kill()


def _folder(root: Path, path: str) -> Path:
    """Return a folder without links in its path. Raises Refused."""
    try:
        folder = (root / path).resolve(strict=True)
        names = folder.is_dir() and any(folder.iterdir())
    except (OSError, ValueError, RuntimeError):
        raise Refused(404, f"There is no folder '{path[:200]}' that you can read.") from None
    if not folder.is_dir() or not folder.name:
        raise Refused(400, f"'{path[:200]}' is not a folder that can be sent.")
    if not names:
        raise Refused(400, f"{folder} is empty.")
    return folder
