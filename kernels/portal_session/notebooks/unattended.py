"""Work goes on without a browser: a cell's output reaches its notebook when nobody is there.

JupyterLab shows and saves what cells print, and a page that is closed takes that with it; the
kernel goes on, its output is lost. Here the server keeps it, and writes it into the notebook when
the page is gone. A page that is back, or another one, asks for what it missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import time
from collections.abc import Callable
from typing import Any

from ..course.together import is_room
from .executions import Execution, KernelFollower, asked_execution
from .notebook_file import FileChanged, NotebookFile

# A page that closed says so. One whose connection broke may be a laptop that sleeps: its own page
# goes on when it wakes up, and should not find another's changes. After this it is written down.
PATIENCE = 600.0  # seconds
SHORTEST = 3.0  # seconds between two writes of one notebook
_GOING_AWAY = (1000, 1001)  # a websocket's close codes of a page that is left on purpose


def _load_jupyter_server_extension(app: Any) -> None:
    """Called by jupyter_server. ``app`` is its ServerApp."""
    from .unattended_routes import routes

    unattended = Unattended(app)
    app.portal_unattended = unattended
    if not is_room(os.environ):  # there the server itself has the notebooks open, and saves them
        unattended.attach()
    app.web_app.add_handlers(".*$", routes(app.base_url, unattended))


class Unattended:
    """Which executions have lost their page, and the writing of their outputs."""

    def __init__(self, app: Any) -> None:
        self._app, self._log = app, app.log
        # By MIME type: who is told of what cells show.
        self.listeners: dict[str, Callable[[Any], None]] = {}
        self._followers: dict[str, KernelFollower] = {}
        self._paths: dict[str, str] = {}  # the notebook of a kernel, as it was last known
        self._files: dict[str, NotebookFile] = {}
        self._contents_get: Any = app.contents_manager.get
        self._writing = asyncio.Lock()
        self._next: dict[str, float] = {}  # by kernel, monotonic: not written again before
        self._loop_task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    def attach(self) -> None:
        """Put this between browsers and kernels, and before the server's end."""
        settings = self._app.web_app.settings
        settings["kernel_websocket_connection_class"] = self._connection_class(
            settings["kernel_websocket_connection_class"]
        )
        ending = self._app.cleanup_extensions

        async def end() -> None:
            await self._rest()
            # Slurm gives a job some seconds between the signal and the end.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.save_all(), timeout=10)
            await ending()

        self._app.cleanup_extensions = end
        contents = self._app.contents_manager
        if inspect.iscoroutinefunction(contents.get):

            async def get(path: str, content: bool = True, *args: Any, **more: Any) -> Any:
                if content:
                    await self.before_read(path.strip("/"))
                return await self._contents_get(path, content, *args, **more)

            contents.get = get

    def _connection_class(self, base: type) -> type:
        unattended = self

        class FollowedConnection(base):  # type: ignore[misc]
            """The server's own connection, which is told of here."""

            def connect(self) -> Any:
                unattended.came(self.kernel_id, self.session.session)
                return super().connect()

            def handle_incoming_message(self, incoming_msg: Any) -> None:
                unattended.asked(self.kernel_id, incoming_msg, self.subprotocol)
                super().handle_incoming_message(incoming_msg)

            def disconnect(self) -> None:
                code = getattr(self.websocket_handler, "close_code", None)
                client, kernel_id = self.session.session, self.kernel_id
                super().disconnect()
                # A page that reconnects has another connection already, under the same name.
                back = getattr(self, "session_key", "") in getattr(base, "_open_sessions", {})
                unattended.went(kernel_id, client, back=back, for_good=code in _GOING_AWAY)

        return FollowedConnection

    # -- what the connections say; nothing here may stand in their way -----------------------------

    def came(self, kernel_id: str, client: str) -> None:
        with self._told("a page came"):
            for gone in [one for one in self._followers if one not in self._app.kernel_manager]:
                if not self._followers[gone].left():
                    self._followers.pop(gone).close()
            self._follower(kernel_id).listen()
            self._follower(kernel_id).came(client)

    def asked(self, kernel_id: str, raw: Any, protocol: str | None) -> None:
        with self._told("a cell was run"):
            execution = asked_execution(raw, protocol)
            if execution is not None:
                self._follower(kernel_id).asked(execution)

    def went(self, kernel_id: str, client: str, *, back: bool, for_good: bool) -> None:
        with self._told("a page went"):
            follower = self._followers.get(kernel_id)
            if follower is None:
                return
            follower.went(client, back=back)
            if for_good and not back:
                for one in follower.left():
                    if one.client == client:
                        one.left_at = float("-inf")  # no patience
            if follower.left() and self._loop_task is None:
                self._loop_task = asyncio.ensure_future(self._save_left())
            self._wake.set()

    async def hand_over(self, kernel_id: str, client: str) -> list[Execution]:
        """What the page may have missed of this kernel's executions; it is the page's from now."""
        follower = self._followers.get(kernel_id)
        if follower is None or client not in follower.clients:
            return []
        async with self._writing:
            return follower.hand_over(client)

    @contextlib.contextmanager
    def _told(self, what: str) -> Any:
        try:
            yield
        except Exception:
            self._log.exception("Outputs are not followed: %s", what)

    def _follower(self, kernel_id: str) -> KernelFollower:
        if kernel_id not in self._followers:
            kernel = self._app.kernel_manager.get_kernel(kernel_id)
            self._followers[kernel_id] = KernelFollower(kernel, self._wake.set, self._shown)
        return self._followers[kernel_id]

    def _shown(self, data: dict[str, Any]) -> None:
        for kind in self.listeners.keys() & data.keys():
            with self._told(f"a cell showed {kind}"):
                self.listeners[kind](data[kind])

    # -- writing ------------------------------------------------------------------------------

    async def _save_left(self) -> None:
        """Write down what pages left behind, until there is nothing left."""
        try:
            while any(follower.left() for follower in self._followers.values()):
                for kernel_id, follower in list(self._followers.items()):
                    if follower.left():
                        await self._save_kernel(kernel_id)
                self._wake.clear()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), SHORTEST)
                await asyncio.sleep(0.2)  # several cells that end at once are one write
        finally:
            self._loop_task = None

    async def _rest(self) -> None:
        """End the loop. A thread that it used for a file ends with it, and the server with that
        (anyio keeps its threads as long as the task that asked for them)."""
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.gather(self._loop_task, return_exceptions=True)

    async def before_read(self, path: str) -> None:
        """Somebody opens this notebook: it has everything that was printed so far."""
        for kernel_id, follower in list(self._followers.items()):
            if follower.left() and await self._path(kernel_id) == path:
                await self._save_kernel(kernel_id, patience=0)

    async def save_all(self) -> None:
        """The server ends: write down all that is not on disk, open pages or not."""
        for kernel_id in list(self._followers):
            await self._save_kernel(kernel_id, everything=True)

    async def _save_kernel(
        self,
        kernel_id: str,
        *,
        patience: float = PATIENCE,
        everything: bool = False,
    ) -> None:
        async with self._writing:
            follower = self._followers[kernel_id]
            now, uptime = time.time(), time.monotonic()
            ours = [
                one
                for one in follower.executions.values()
                if everything or (one.left_at is not None and uptime - one.left_at >= patience)
            ]
            if kernel_id not in self._app.kernel_manager:
                for one in ours:
                    one.ended = one.ended or now
            new = [one for one in ours if one.outputs.changes > one.saved]
            if follower.clients and not everything:
                # The notebook is open somewhere: once, at the end of each cell.
                new = [one for one in new if one.ended is not None]
            # What ends, or is printed, while this is written is for the next time.
            over = {one.id: one.outputs.changes for one in ours if one.ended is not None}
            at_once = everything or patience == 0
            if new and not at_once and time.monotonic() < self._next.get(kernel_id, 0):
                return
            if new and not await self._write(kernel_id, new):
                return
            for one in ours:
                if over.get(one.id) == one.outputs.changes:  # all of it is on disk
                    one.left_at = None

    async def _write(self, kernel_id: str, executions: list[Execution]) -> bool:
        """True when there is nothing more to do; False: another try."""
        path = await self._path(kernel_id)
        if path is None:
            return True
        if path not in self._files:
            contents = _Reading(self._app.contents_manager, self._contents_get)
            self._files[path] = NotebookFile(contents, path)
        file, began = self._files[path], time.monotonic()
        try:
            saved_at = await file.saved_at()
            # What its page saved after its end is there already.
            new = [one for one in executions if one.ended is None or one.ended > saved_at]
            changes = {one.id: one.outputs.changes for one in executions}
            if new:
                await file.put([one.result() for one in new])
        except FileChanged:
            return False
        except Exception as error:
            self._next[kernel_id] = time.monotonic() + 60
            self._log.warning("The output of a cell could not be written to %s: %s", path, error)
            return not await self._exists(path)  # deleted: nothing to do
        for one in executions:
            one.saved = changes[one.id]
        took = time.monotonic() - began
        self._next[kernel_id] = time.monotonic() + max(SHORTEST, 10 * took)
        return True

    async def _exists(self, path: str) -> bool:
        answer = self._app.contents_manager.file_exists(path)
        return bool(await answer if inspect.isawaitable(answer) else answer)

    async def _path(self, kernel_id: str) -> str | None:
        """The notebook that this kernel belongs to; None for consoles and the like."""
        for session in await self._app.session_manager.list_sessions():
            if session["kernel"]["id"] == kernel_id:
                if session["type"] == "notebook":
                    self._paths[kernel_id] = session["path"].strip("/")
                break
        return self._paths.get(kernel_id)


class _Reading:
    """The contents manager without the look at left executions, for this module's own reading."""

    def __init__(self, contents: Any, get: Any) -> None:
        self.get, self.save = get, contents.save
