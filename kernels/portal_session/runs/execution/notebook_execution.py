"""Execution of a notebook's point: its kernel, cell by cell, and the notebook that grows."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from nbclient.exceptions import DeadKernelError

from ...job_kernels.job.running_kernel import cause_of_end
from ...kernels.command_line import PROVISIONER
from ...kernels.container import Container
from ...kernels.kernels import SessionKernelSpecs
from ...situation import in_thread
from .. import RunError
from ..frozen import VARIABLE as FROZEN
from ..live.kept_kernel import HeldKernel
from ..live.rendering import notebook_rendering
from ..source import is_tagged
from .notebook_client import NO_INPUT, PointClient, shortened
from .notebook_writer import NotebookWriter
from .outcome import ENDS, PRUNED, STOPPED, SUCCEEDED, Outcome

FILE = "output.ipynb"
# A kernel starts in the folder of the frozen code, not in that of the source: others may have put
# there what Python imports, or R executes (.Rprofile, .RData), before the first cell. By language,
# what then leads it to the source. It may run in a container without this package or the folder.
_ENTER = {
    "python": """\
import os as _os, sys as _sys
_sys.path.insert(0, {folder})
import portal_frozen as _frozen
_sys.path.remove({folder})
_frozen.install()
if getattr(_sys.flags, "safe_path", False) and "" not in _sys.path:
    _places = [place.endswith(("site-packages", "dist-packages")) for place in _sys.path]
    _sys.path.insert(_places.index(True) if any(_places) else 0, "")
    del _places
_os.chdir({cwd} if _os.path.isdir({cwd}) else _os.path.expanduser("~"))
globals().get("_dh", [])[:] = [_os.getcwd()]
del _os, _sys, _frozen
""",
    "r": 'setwd(if (dir.exists({cwd})) {cwd} else "~")',
}
_STARTS = 180  # seconds that a kernel may take until it answers
_ENDS = 10.0  # seconds that it may take to end
_GOOD_EXITS = frozenset({"", "0", "None", "False"})  # of SystemExit; other values are failures
_MAY_FAIL, _SKIPPED = "raises-exception", "skip-execution"  # nbclient's tags of cells
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class NotebookExecution:
    """Execution of ``notebook`` (its JSON) with the kernel of this name, in the working directory
    ``cwd``; the result grows in ``folder``. ``variables``: of the kernel."""

    def __init__(
        self,
        notebook: Mapping[str, Any],
        kernel: str,
        folder: Path,
        cwd: Path,
        variables: Mapping[str, str],
        largest: int,
    ) -> None:
        self._kernel, self._cwd, self._variables = kernel, cwd, dict(variables)
        self._largest = largest
        self._notebook = _of_newest_format(notebook)
        self._specs = SessionKernelSpecs()
        self._path = folder / FILE
        self._task: asyncio.Task[Outcome] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._stopped, self._is_over = "", False
        self._client: PointClient | None = None
        self._failed = False  # by an error of a cell: the kernel lives
        # Returns how long (Unix seconds) the kernel of a cell that fails is kept; None: not at all.
        self.keep_until: Callable[[], float] | None = None
        self.held: HeldKernel | None = None  # after `run`
        self.spec: Any = None  # the kernelspec, once it is found
        self.cell = 0
        self.cells = sum(_runs(cell) for cell in self._notebook["cells"])

    async def find(self) -> None:
        """Find the kernelspec. Raises RunError if this environment has none of the name."""
        names = await asyncio.to_thread(self._specs.find_kernel_specs)
        if self._kernel.lower() not in {name.lower() for name in names}:
            raise RunError(
                f"This environment has no kernel '{self._kernel}'. Its kernels: "
                f"{', '.join(names) or 'none'}. Choose one with --kernel, or another environment."
            )
        self.spec = await asyncio.to_thread(self._specs.get_kernel_spec, self._kernel)

    def stop(self, reason: str, seconds: float = ENDS) -> None:
        """Stop the execution; ``reason`` is a sentence. The kernel gets SIGTERM, which ends it; a
        cell that handles the signal has ``seconds`` for that."""
        if not self._stopped and self._task is not None and not self._is_over:
            self._ending = asyncio.ensure_future(self._terminate(seconds))
        self._stopped = self._stopped or reason
        if self.held is not None:
            self.held.end()

    async def _terminate(self, seconds: float) -> None:
        assert self._task is not None and self._client is not None
        if self.cell:
            with contextlib.suppress(Exception):  # it has ended already
                await self._client.km.signal_kernel(signal.SIGTERM)
            await asyncio.wait({self._task}, timeout=seconds)
        self._task.cancel()

    async def rendered(self, state: str, largest: int, rank: int = 0) -> dict[str, Any] | None:
        """Return the cells, as `notebook_rendering` does; None while there are none."""
        if self._client is None:
            return None
        notebook = self._client.snapshot()
        return await in_thread(notebook_rendering, notebook, self.cell, state, largest)

    async def run(self) -> Outcome:
        """Execute the cells in order, up to one that fails."""
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="portal-run-"))  # 700
            # Unix sockets: any user of the node could connect to ports of loopback.
            manager = AsyncKernelManager(
                kernel_name=self._kernel,
                kernel_spec_manager=self._specs,
                transport="ipc",
                ip=f"{folder}/k",
                connection_file=f"{folder}/kernel.json",
            )
            KernelProvisionerFactory.instance().default_provisioner_name = PROVISIONER
            client = PointClient(
                self._notebook,
                manager,
                self._largest,
                lambda: writer.changed(),
                timeout=None,
                startup_timeout=_STARTS,
                record_timing=True,
            )
            self._client = client
            writer = NotebookWriter(self._path, client.snapshot)
            await writer.write()
            keeping = asyncio.ensure_future(writer.keep())
            self._task = asyncio.ensure_future(self._execute(client, writer))
            if self._stopped:
                self._task.cancel()
            try:
                outcome = await self._task
            except asyncio.CancelledError:
                outcome = Outcome.failed(self._where(self._stopped), STOPPED)
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await writer.write()
            if self._failed and self.keep_until is not None and not self._stopped:
                self.held = self._keep(manager, client, self.keep_until(), stack.pop_all())
            else:
                await _end(manager, client, now=bool(self._stopped))
        if writer.problem and outcome.state == SUCCEEDED:
            return Outcome.failed(writer.problem)
        return outcome

    async def _execute(self, client: PointClient, writer: NotebookWriter) -> Outcome:
        try:
            enter = self._enter()
            start = self._variables[FROZEN] if enter else str(self._cwd)
            await client.async_start_new_kernel(cwd=start, env=self._variables)
            await client.async_start_new_kernel_client()
            await client.keep_all_output()
            if enter:
                await self._run_silently(client, enter)
        except Exception as error:  # of the kernelspec, its program, its sockets
            if self._stopped:
                return Outcome.failed(self._stopped, STOPPED)
            return Outcome.failed(f"The kernel '{self._kernel}' could not be started: {error}")
        ended = ""
        for index, cell in enumerate(self._notebook["cells"]):
            if not _runs(cell):
                continue
            if self._stopped:  # at the very end of a cell: nbclient may swallow the cancellation
                return Outcome.failed(self._where(self._stopped), STOPPED)
            self.cell += 1
            outputs = client.begin_cell(index)
            writer.cell_ended()
            try:
                reply = _as_exit(await client.execute(index))
            except (DeadKernelError, RuntimeError, asyncio.CancelledError) as error:
                self._is_over = True
                await asyncio.sleep(0.5)  # Slurm may end all processes of a job at once
                sentence = self._stopped or await _cause(client.km, error)
                outputs.take("stream", {"name": "stderr", "text": f"\n{sentence}\n"})
                return Outcome.failed(self._where(sentence), STOPPED if self._stopped else 1)
            writer.cell_ended()
            if self._stopped:
                return Outcome.failed(self._where(self._stopped), STOPPED)
            if _ends(reply):
                ended = f"It ended itself in cell {self.cell} of {self.cells}."
                break
            status = reply.get("status")  # "aborted" too: the cell was not executed
            if status != "ok" and not (status == "error" and is_tagged(cell, _MAY_FAIL)):
                words = f"the kernel has not executed this cell to its end, but says '{status}'"
                error_fields = shortened({"ename": "Error", "evalue": words, **reply})
                if not any(output["output_type"] == "error" for output in outputs.as_json()):
                    outputs.take("error", error_fields)
                pruned = error_fields["ename"] == PRUNED
                self._failed = not pruned
                sentence = self._where(_sentence(**error_fields))
                return Outcome.failed(sentence)._replace(pruned=pruned)
        client.set_widgets_metadata()
        if self._stopped:
            return Outcome.failed(self._where(self._stopped), STOPPED)
        return Outcome(SUCCEEDED, ended, 0)

    def _enter(self) -> str:
        """Return the code that has the kernel import the frozen modules and work in the source's
        folder; "" for a kernel that starts there. Raises OSError."""
        code = _ENTER.get(self.spec.language.lower(), "")
        if not code or FROZEN not in self._variables:
            return ""
        if Container.from_environ(os.environ) is None and not self._cwd.is_dir():
            raise NotADirectoryError(f"{self._cwd} is no folder.")
        # R's texts are written as JSON's.
        quoted = repr if "import" in code else functools.partial(json.dumps, ensure_ascii=False)
        return code.format(folder=quoted(self._variables[FROZEN]), cwd=quoted(str(self._cwd)))

    async def _run_silently(self, client: PointClient, code: str) -> None:
        """Execute code before the first cell. Raises RunError."""
        request = client.kc.execute(code, silent=True, store_history=False, allow_stdin=False)
        reply = await client.async_wait_for_reply(request)
        if reply is None or reply["content"].get("status") != "ok":
            raise RunError("it does not import the frozen modules from the folder of the source.")

    def _keep(
        self, manager: Any, client: PointClient, until: float, stack: contextlib.ExitStack
    ) -> HeldKernel:
        """Return the kernel, which ends with the folder of its sockets, ``stack``."""

        async def end() -> None:
            with stack:
                await _end(manager, client, now=bool(self._stopped))

        return HeldKernel(manager, client.kc, until, end)

    def _where(self, sentence: str) -> str:
        if not self.cell:
            return sentence
        return f"{sentence} (cell {self.cell} of {self.cells})"


def _of_newest_format(notebook: Mapping[str, Any]) -> Any:
    """Return the notebook as nbformat's nodes, with empty outputs. Raises RunError."""
    try:
        nodes = nbformat.from_dict(dict(notebook))
        nodes = nodes if nodes.nbformat == 4 else nbformat.convert(nodes, 4)
        for cell in nodes["cells"]:
            if isinstance(cell.source, list):  # multi-line, as files have it
                cell.source = "".join(cell.source)
            cell.setdefault("metadata", nbformat.NotebookNode())
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nodes.setdefault("metadata", nbformat.NotebookNode())
    except Exception as error:  # whatever a damaged notebook makes of nbformat
        raise RunError(f"The notebook is damaged: {error!r}"[:500]) from None
    return nodes


def _runs(cell: Mapping[str, Any]) -> bool:
    code = cell["cell_type"] == "code" and bool(cell["source"].strip())
    return code and not is_tagged(cell, _SKIPPED)


def _as_exit(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to IPython's exit(1), which the kernel calls "ok", as that to sys.exit(1);
    others as they are."""
    for payload in reply.get("payload") or ():
        if isinstance(payload, dict) and payload.get("source") == "ask_exit":
            code = str(payload.get("keepkernel"))  # its argument: True keeps the kernel
            if reply.get("status") == "ok" and code not in (*_GOOD_EXITS, "True"):
                return {**reply, "status": "error", "ename": "SystemExit", "evalue": code}
    return reply


def _ends(reply: Mapping[str, Any]) -> bool:
    """Return True if a cell has ended the notebook: by sys.exit(0) and the like, as Python takes
    them, or by exit() of IPython, which ends the kernel after the cell."""
    if reply.get("status") == "error":
        return reply.get("ename") == "SystemExit" and reply.get("evalue") in _GOOD_EXITS
    payload = reply.get("payload") or ()
    return any(each.get("source") == "ask_exit" for each in payload if isinstance(each, dict))


def _sentence(ename: str, evalue: str, **_: Any) -> str:
    """Return an error as one line. ``input()`` has one of its own."""
    if ename in NO_INPUT:
        return "input() cannot be answered in a run: pass the value as a parameter"
    return " ".join(_COLOUR.sub("", f"{ename}: {evalue}").split())[:1500].rstrip(":")


async def _cause(manager: Any, error: Exception) -> str:
    """Return why the kernel's process ended."""
    provisioner = getattr(manager, "provisioner", None)
    with contextlib.suppress(Exception):
        code = await provisioner.poll()
        if code is not None:
            return cause_of_end(code)
    return f"The kernel ended: {error}"


async def _end(manager: Any, client: Any, *, now: bool) -> None:
    """End the kernel: gracefully, so that its exit handlers run, unless ``now``."""
    with contextlib.suppress(Exception):  # it may have ended already
        await asyncio.wait_for(manager.shutdown_kernel(now=now), _ENDS)
    with contextlib.suppress(Exception):
        if client.kc is not None:
            client.kc.stop_channels()
    with contextlib.suppress(Exception):
        if await manager.is_alive():
            await manager.shutdown_kernel(now=True)
