"""A relay that is killed, with its server or alone: each output is there once, and in order."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from job_kernel_site import Notebook, Session, job_kernel_session
from jupyter_client.ioloop import AsyncIOLoopKernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from machine import patience
from portal_session.job_kernels import record as records
from portal_session.job_kernels.adoption import Adoption
from portal_session.kernels.command_line import PROVISIONER, SessionProvisioner
from portal_session.kernels.job_specs import CONTINUE
from portal_session.notebooks.executions import Execution
from portal_session.notebooks.kernel_follower import KernelFollower
from traitlets.config import Config, Configurable

SPEC = "job-venv-python3-t4"
NUMBERS = "import time\nfor number in range({0}):\n    print(number, flush=True); time.sleep(0.1)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session without GPUs."""
    yield from job_kernel_session(tmp_path_factory)


@pytest.fixture
def kernel(session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A kernel that runs: its relay answers for it before."""
    monkeypatch.setenv("JUPYTER_PATH", session.environ["PORTAL_KERNEL_SPECS"])
    kernel = Notebook(session.environ, SPEC)
    kernel.good("x = 41")
    yield kernel
    kernel.client.stop_channels()


def _ask(kernel: Notebook, code: str, cell: str) -> str:
    """Run a cell as JupyterLab does; return the message's id."""
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    made = kernel.client.session.msg("execute_request", content, metadata={"cellId": cell})
    kernel.client.shell_channel.send(made)
    return str(made["header"]["msg_id"])


def _kill(kernel: Notebook, session: Session) -> None:
    """Kill the relay, and keep its record for the next one, as a new server does (`adoption`)."""
    os.kill(kernel.manager.provisioner.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
    kernel.client.stop_channels()
    (id,) = records.ids(session.home)
    records.write(records.read(id, session.home).but(adopt=True), session.home)


async def _started(
    session: Session, late: float = 0.0
) -> tuple[AsyncIOLoopKernelManager, KernelFollower]:
    """Start the kernel's relay under its former id, and follow it ``late`` seconds later."""
    (id,) = records.ids(session.home)
    path = session.temporary / f"kernel-{id}.json"  # as a server names it
    path.unlink(missing_ok=True)
    manager = AsyncIOLoopKernelManager(
        kernel_name=SPEC, connection_file=str(path), autorestart=False
    )
    await manager.start_kernel(env=dict(session.environ))
    follower = KernelFollower(manager, lambda: None)
    await asyncio.sleep(late)
    follower.listen()
    return manager, follower


@asynccontextmanager
async def _taken_up(session: Session, late: float = 0.0) -> AsyncIterator[KernelFollower]:
    """The kernel in a new server, and at the end no more job of it."""
    manager, follower = await _started(session, late)
    try:
        yield follower
    finally:
        follower.close()
        await manager.shutdown_kernel()
        deadline = time.monotonic() + patience(20)
        while session.jobs.living or records.ids(session.home):
            assert time.monotonic() < deadline, "a job or a record is left"
            await asyncio.sleep(0.1)


async def _ended(follower: KernelFollower, id: str) -> Execution:
    deadline = time.monotonic() + patience(40)
    while id not in follower.executions or follower.executions[id].ended is None:
        assert time.monotonic() < deadline, follower.executions
        await asyncio.sleep(0.1)
    return follower.executions[id]


def _printed(execution: Execution) -> list[str]:
    assert all(item["output_type"] == "stream" for item in execution.outputs.as_json())
    return "".join(item["text"] for item in execution.outputs.as_json()).split()


@pytest.mark.parametrize("away", [0.0, 2.0], ids=["at-once", "later"])
@pytest.mark.parametrize("count", [15, 80], ids=["ended", "running"])
async def test_each_number_is_there_once(
    session: Session, kernel: Notebook, count: int, away: float
) -> None:
    id = _ask(kernel, NUMBERS.format(count), "cell-0")
    await asyncio.sleep(1)
    _kill(kernel, session)
    await asyncio.sleep(away)
    async with _taken_up(session) as follower:
        execution = await _ended(follower, id)
        assert _printed(execution) == [str(number) for number in range(count)]
        assert (execution.cell, execution.missed) == ("cell-0", True)
        assert execution.outputs.execution_count is not None


async def test_a_server_that_is_slow_to_listen_misses_nothing(
    session: Session, kernel: Notebook
) -> None:
    id = _ask(kernel, NUMBERS.format(60), "cell-0")
    await asyncio.sleep(1)
    _kill(kernel, session)
    async with _taken_up(session, late=4) as follower:
        assert _printed(await _ended(follower, id)) == [str(number) for number in range(60)]


async def test_two_servers_that_are_killed_one_after_the_other(
    session: Session, kernel: Notebook
) -> None:
    id = _ask(kernel, NUMBERS.format(100), "cell-0")
    await asyncio.sleep(1)
    _kill(kernel, session)
    second, follower = await _started(session)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(_ended(follower, id), 4)
    assert id in follower.executions, "it was told"
    follower.close()
    kernel.manager.provisioner = second.provisioner
    _kill(kernel, session)
    async with _taken_up(session) as last:
        assert _printed(await _ended(last, id)) == [str(number) for number in range(100)]


async def test_a_kernel_that_dies_meanwhile_says_so(session: Session, kernel: Notebook) -> None:
    code = "import os, time; print('first', flush=True); time.sleep(2); os.kill(os.getpid(), 9)"
    id = _ask(kernel, code, "cell-0")
    await asyncio.sleep(1)
    _kill(kernel, session)
    await asyncio.sleep(2)
    async with _taken_up(session) as follower:
        first, error = (await _ended(follower, id)).outputs.as_json()
        assert first["text"] == "first\n"
        assert "The kernel was killed" in error["evalue"]


async def test_a_job_that_ends_afterwards_says_so_in_the_cell_that_runs(
    session: Session, kernel: Notebook
) -> None:
    id = _ask(kernel, "import time; print('first', flush=True); time.sleep(60)", "cell-0")
    await asyncio.sleep(1)
    _kill(kernel, session)
    async with _taken_up(session) as follower:
        deadline = time.monotonic() + patience(20)
        while id not in follower.executions:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        session.jobs.end()
        first, error = (await _ended(follower, id)).outputs.as_json()
        assert first["text"] == "first\n"
        assert "Restart the kernel to request a new job." in error["evalue"]


class Served:
    """A kernel of a session's server, with all that the server has for it."""

    def __init__(self, session: Session) -> None:
        config = Config({"KernelRestarter": {"time_to_dead": 0.2}})
        self.server = Configurable()
        self.id = str(uuid.uuid4())
        self.manager = AsyncIOLoopKernelManager(
            kernel_name=SPEC,
            autorestart=True,
            config=config,
            parent=self.server,
            connection_file=str(session.temporary / f"kernel-{self.id}.json"),
        )
        self.session = session
        self.follower = KernelFollower(self.manager, lambda: None)
        self.restarts: list[str] = []
        unattended = SimpleNamespace(follow=lambda id: self.follower.listen())
        app: Any = SimpleNamespace(portal_unattended=unattended)
        setattr(self.server, CONTINUE, Adoption(app, session.jobs).continue_life)

    async def start(self) -> None:
        await self.manager.start_kernel(kernel_id=self.id, env=dict(self.session.environ))
        self.manager.add_restart_callback(lambda: self.restarts.append("restart"), "restart")
        self.manager.add_restart_callback(lambda: self.restarts.append("dead"), "dead")
        self.follower.listen()
        self.client = self.manager.client()
        self.client.start_channels()

    async def run(self, code: str) -> Execution:
        """Run a cell to its end."""
        return await _ended(self.follower, self.ask(code))

    def ask(self, code: str) -> str:
        id = _ask(SimpleNamespace(client=self.client), code, "cell-0")  # type: ignore[arg-type]
        execution = Execution(id, self.client.session.session, "cell-0", code, time.time())
        self.follower.came(execution.client)
        self.follower.asked(execution)
        return id

    def kill_relay(self) -> None:
        provisioner: Any = self.manager.provisioner
        os.kill(provisioner.process.pid, signal.SIGKILL)


@pytest.fixture
async def served(session: Session, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A kernel that runs; its server uses the session's home, folder and provisioner."""
    folder = session.environ["PORTAL_KERNEL_SPECS"]
    for name, value in (("JUPYTER_PATH", folder), ("PORTAL_KERNEL_SPECS", folder)):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(session.home))
    factory = KernelProvisionerFactory.instance()
    name = f"{SessionProvisioner.__module__}:{SessionProvisioner.__name__}"
    entry = importlib.metadata.EntryPoint(PROVISIONER, name, "jupyter_client.kernel_provisioners")
    monkeypatch.setitem(factory.provisioners, PROVISIONER, entry)
    monkeypatch.setattr(factory, "default_provisioner_name", PROVISIONER)
    kernel = Served(session)
    await kernel.start()
    yield kernel
    kernel.follower.close()
    kernel.client.stop_channels()
    await kernel.manager.shutdown_kernel()
    deadline = time.monotonic() + patience(20)
    while session.jobs.living or records.ids(session.home):
        assert time.monotonic() < deadline, "a job or a record is left"
        await asyncio.sleep(0.1)


async def test_a_relay_that_is_killed_alone_is_followed_by_one_that_nobody_notices(
    served: Served,
) -> None:
    await served.run("x = 41")
    first = served.manager.provisioner.process  # type: ignore[union-attr]
    id = served.ask(NUMBERS.format(40))
    await asyncio.sleep(1)
    served.kill_relay()
    assert _printed(await _ended(served.follower, id)) == [str(number) for number in range(40)]
    assert _printed(await served.run("print(x + 1)")) == ["42"]
    assert served.manager.provisioner.process is not first  # type: ignore[union-attr]
    assert served.restarts == [], "no page is told of a restart"
    # The user's own restart is one.
    await served.manager.restart_kernel()
    execution = await served.run("print('x' in globals())")
    assert _printed(execution) == ["False"]


@pytest.fixture
def held(session: Session) -> None:
    """The cluster is full: the next job waits."""
    session.jobs.held = True


async def test_a_relay_that_is_killed_while_its_job_waits_is_a_restart_that_pages_see(
    session: Session, held: None, served: Served
) -> None:
    """What it kept for the job is lost with it, and a page must not wait for that."""
    deadline = time.monotonic() + patience(20)
    while not session.jobs.waiting:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    served.kill_relay()
    while not served.restarts:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    session.jobs.give()
    assert _printed(await served.run("print(42)")) == ["42"]
