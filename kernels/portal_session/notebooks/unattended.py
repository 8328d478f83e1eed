"""Outputs of cells whose page is gone, written into their notebook by the server.

JupyterLab shows and saves what cells print; after the page is closed, the kernel goes on, but its
output is lost. Here the server keeps it, and writes it into the notebook when the page is gone. A
page that is back, or another one, asks for what it missed.
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
from .awaited_notebooks import AwaitedNotebooks
from .executions import Execution, asked_execution
from .followed_connection import followed_connection
from .kernel_follower import KernelFollower
from .notebook_file import FileChanged, NotebookFile

# Time until the output is written for a page whose connection broke. It may be on a laptop that
# sleeps, and should not find another's changes when it wakes up. A page that is closed says so.
PATIENCE = 600.0  # seconds
SHORTEST = 3.0  # seconds between two writes of one notebook


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    from .unattended_routes import routes

    unattended = Unattended(app)
    app.portal_unattended = unattended
    if not is_room(os.environ):  # a room's server has the notebooks open itself, and saves them
        unattended.attach()
    app.web_app.add_handlers(".*$", routes(app.base_url, unattended))


class Unattended:
    """Executions that have lost their page, and the writing of their outputs."""

    def __init__(self, app: Any) -> None:
        self._app, self._log = app, app.log
        # By MIME type: callbacks for what cells show.
        self.listeners: dict[str, Callable[[Any], None]] = {}
        self._followers: dict[str, KernelFollower] = {}
        self._paths: dict[str, str] = {}  # last known notebook by kernel
        self._files: dict[str, NotebookFile] = {}
        self._contents_get: Any = app.contents_manager.get
        self._writing = asyncio.Lock()
        self._next: dict[str, float] = {}  # by kernel: earliest time of the next write (monotonic)
        self._loop_task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self.awaited = AwaitedNotebooks()
        self._comparing: dict[str, asyncio.Task[None]] = {}  # by kernel; see _compare

    def attach(self) -> None:
        """Attach to the connections between browsers and kernels, and to the server's shutdown."""
        settings = self._app.web_app.settings
        settings["kernel_websocket_connection_class"] = followed_connection(
            settings["kernel_websocket_connection_class"], self
        )
        ending = self._app.cleanup_extensions

        async def end() -> None:
            await self._rest()
            # Slurm gives a job some seconds between the signal and SIGKILL.
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

    # -- events of the connections; errors here must not break them ----------------------------

    def came(self, kernel_id: str, client: str) -> None:
        with self._logged("a page connected"):
            for gone in [
                known for known in self._followers if known not in self._app.kernel_manager
            ]:
                if not self._followers[gone].left():
                    self._followers.pop(gone).close()
            self._follower(kernel_id).listen()
            self._follower(kernel_id).came(client)

    def follow(self, kernel_id: str) -> None:
        """Follow a kernel of a former server, which sends its past executions to each listener."""
        with self._logged("a kernel was taken up"):
            self._follower(kernel_id).listen()

    def asked(self, kernel_id: str, raw: Any, protocol: str | None) -> None:
        with self._logged("a cell was run"):
            execution = asked_execution(raw, protocol)
            if execution is not None:
                self._follower(kernel_id).asked(execution)

    def went(self, kernel_id: str, client: str, *, back: bool, for_good: bool) -> None:
        with self._logged("a page disconnected"):
            follower = self._followers.get(kernel_id)
            if follower is None:
                return
            follower.went(client, back=back)
            if for_good and not back:
                for execution in follower.left():
                    if execution.client == client:
                        execution.left_at = float("-inf")  # no patience
            self._begin_saving()

    async def hand_over(self, kernel_id: str, client: str) -> list[Execution]:
        """Return what the page may have missed of this kernel's executions; from now on they are
        the page's."""
        follower = self._followers.get(kernel_id)
        if follower is None or client not in follower.clients:
            return []
        async with self._writing:
            return follower.hand_over(client)

    @contextlib.contextmanager
    def _logged(self, what: str) -> Any:
        try:
            yield
        except Exception:
            self._log.exception("Outputs are not recorded: %s", what)

    def _follower(self, kernel_id: str) -> KernelFollower:
        if kernel_id not in self._followers:
            kernel = self._app.kernel_manager.get_kernel(kernel_id)
            self._followers[kernel_id] = KernelFollower(
                kernel, self._wake.set, self._shown, lambda: self._past_shown(kernel_id)
            )
        return self._followers[kernel_id]

    def _shown(self, data: dict[str, Any]) -> None:
        for kind in self.listeners.keys() & data.keys():
            with self._logged(f"a cell showed {kind}"):
                self.listeners[kind](data[kind])

    def _past_shown(self, kernel_id: str) -> None:
        self._comparing[kernel_id] = asyncio.ensure_future(self._compare(kernel_id))
        self._begin_saving()

    async def _compare(self, kernel_id: str) -> None:
        """Leave alone what pages of the former server have saved."""
        async with self._writing:
            path = await self._path(kernel_id)
            if path is None:
                return
            try:
                saved_at = await self._file(path).saved_at()
            except Exception as error:
                self._log.warning("%s was not compared with its kernel: %s", path, error)
            else:
                if kernel_id in self._followers:
                    self._followers[kernel_id].leave_saved(saved_at)
        self.awaited.arrived(path)

    # -- writing ------------------------------------------------------------------------------

    def _begin_saving(self) -> None:
        """Begin to write, if pages have left outputs."""
        left = any(follower.left() for follower in self._followers.values())
        if left and self._loop_task is None:
            self._loop_task = asyncio.ensure_future(self._save_left())
        self._wake.set()

    async def _save_left(self) -> None:
        """Write the outputs that pages left behind, until none are left."""
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
        """End the tasks, so that a thread that one uses for a file ends with it, and the server can
        end (anyio keeps its threads as long as the task that asked for them)."""
        tasks = [*self._comparing.values()]
        if self._loop_task is not None:
            tasks.append(self._loop_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def before_read(self, path: str) -> None:
        """Write all output so far into the notebook, which is being opened."""
        await self.awaited.wait(path)
        for kernel_id, follower in list(self._followers.items()):
            if follower.left() and await self._path(kernel_id) == path:
                await self._save_kernel(kernel_id, patience=0)

    async def save_all(self) -> None:
        """Write all that is not on disk before the server ends, open pages or not."""
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
                execution
                for execution in follower.executions.values()
                if everything
                or (execution.left_at is not None and uptime - execution.left_at >= patience)
            ]
            if kernel_id not in self._app.kernel_manager:
                for execution in ours:
                    execution.ended = execution.ended or now
            new = [execution for execution in ours if execution.outputs.changes > execution.saved]
            if follower.clients and not everything:
                # The notebook is open somewhere: write once, at the end of each cell.
                new = [execution for execution in new if execution.ended is not None]
            # Output that comes during the write is left to the next one.
            over = {
                execution.id: execution.outputs.changes
                for execution in ours
                if execution.ended is not None
            }
            at_once = everything or patience == 0
            if new and not at_once and time.monotonic() < self._next.get(kernel_id, 0):
                return
            if new and not await self._write(kernel_id, new):
                return
            for execution in ours:
                if over.get(execution.id) == execution.outputs.changes:  # complete on disk
                    execution.left_at = None

    async def _write(self, kernel_id: str, executions: list[Execution]) -> bool:
        """Return True if there is nothing more to do; False: try again."""
        path = await self._path(kernel_id)
        if path is None:
            return True
        file, began = self._file(path), time.monotonic()
        try:
            saved_at = await file.saved_at()
            # Its page saved the file after its end: nothing to add.
            new = [execution for execution in executions if not execution.saved_by_page(saved_at)]
            changes = {execution.id: execution.outputs.changes for execution in executions}
            if new:
                await file.put([execution.result() for execution in new])
        except FileChanged:
            return False
        except Exception as error:
            self._next[kernel_id] = time.monotonic() + 60
            self._log.warning("The output of a cell could not be written to %s: %s", path, error)
            return not await self._exists(path)  # deleted: done
        for execution in executions:
            execution.saved = changes[execution.id]
        took = time.monotonic() - began
        self._next[kernel_id] = time.monotonic() + max(SHORTEST, 10 * took)
        return True

    def _file(self, path: str) -> NotebookFile:
        if path not in self._files:
            contents = _Reading(self._app.contents_manager, self._contents_get)
            self._files[path] = NotebookFile(contents, path)
        return self._files[path]

    async def _exists(self, path: str) -> bool:
        exists = self._app.contents_manager.file_exists(path)
        return bool(await exists if inspect.isawaitable(exists) else exists)

    async def _path(self, kernel_id: str) -> str | None:
        """Return the notebook that this kernel belongs to; None for consoles and the like."""
        for session in await self._app.session_manager.list_sessions():
            if session["kernel"]["id"] == kernel_id:
                if session["type"] == "notebook":
                    self._paths[kernel_id] = session["path"].strip("/")
                break
        return self._paths.get(kernel_id)


class _Reading:
    """Contents manager without the hook `before_read`, for this module's own reads."""

    def __init__(self, contents: Any, get: Any) -> None:
        self.get, self.save = get, contents.save
