"""Kernels and terminals of a server beside its container, with the real Apptainer and an image
without Python; and which kernels a session shows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import images
import pexpect
import psutil
import pytest
from bash_kernel import kernel as bash_kernel
from image_builds import program
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.kernelspec import KernelSpec, NoSuchKernel
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from machine import patience
from machine_clock import awake
from portal_session.kernels import command_line, container_bash, environment, kernels
from portal_session.kernels.command_line import (
    PROVISIONER,
    SessionProvisioner,
    _load_jupyter_server_extension,
)
from portal_session.kernels.container import HERE, Container
from portal_session.kernels.kernels import SessionKernelSpecs, _read_specs
from portal_session.kernels.sockets import PORTS_ONLY
from session_server import make_python
from test_session_command_line import a_server, provisioners  # noqa: F401  a fixture

from portal.demo.environments.apptainer import apptainer_environment
from portal.launch.container import kernel_container
from portal.models.catalog.environment import Environment
from portal.models.session.resources import Resources

PATIENCE = patience(60)
os_kill = os.kill
SPEC = {"argv": ["/usr/bin/R", "--args", "{connection_file}"], "display_name": "R", "language": "R"}


def given(*kernels: tuple[str, str]) -> str:
    return json.dumps([{"name": n, "title": t, "language": "x"} for n, t in kernels])


def install(folder: Path, name: str, **more: Any) -> None:
    place = folder / "kernels" / name
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps({**SPEC, "display_name": name, **more}))


# -- which are shown -----------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Where an environment's kernels are, and a person's own."""
    ours, mine = tmp_path / "ours", tmp_path / "mine"
    monkeypatch.setenv("JUPYTER_PATH", str(ours))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(mine))
    monkeypatch.delenv("PORTAL_CONTAINER", raising=False)
    return ours, mine


def test_a_session_shows_what_its_environment_names_and_what_the_person_installed(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, mine = folders
    for name in ("ir", "other", "a"):
        install(ours, name)
    install(mine, "own")
    assert {"ir", "other", "a", "own", "python3"} <= set(SessionKernelSpecs().find_kernel_specs())
    monkeypatch.setenv(
        "PORTAL_KERNELS", given(("ir", "R 4.2 of the site"), ("a", "A"), ("no", "N"))
    )
    specs = SessionKernelSpecs()
    assert list(specs.find_kernel_specs()) == ["ir", "a", "own"]
    shown = {name: one["spec"]["display_name"] for name, one in specs.get_all_specs().items()}
    assert shown == {"ir": "R 4.2 of the site", "a": "A", "own": "own"}
    for hidden in ("other", "python3", "no"):
        with pytest.raises(NoSuchKernel):
            specs.get_kernel_spec(hidden)
    monkeypatch.setenv("PORTAL_KERNELS", "{broken")
    assert "other" in SessionKernelSpecs().find_kernel_specs()


async def test_a_kernel_that_knows_ports_only_says_so(folders: tuple[Path, Path]) -> None:
    install(folders[0], "old", metadata={PORTS_ONLY: True})
    install(folders[0], "new")
    specs = SessionKernelSpecs()
    assert specs.get_kernel_spec("old").display_name == "old (readable by all users of its node)"
    for name, transport in (("old", "tcp"), ("new", "ipc")):
        manager = AsyncKernelManager(kernel_name=name, kernel_spec_manager=specs)
        spec = specs.get_kernel_spec(name)
        provisioner = SessionProvisioner(kernel_id="k", kernel_spec=spec, parent=manager)
        await provisioner.pre_launch(env={})
        assert manager.transport == transport
        manager.cleanup_connection_file()
        await provisioner.cleanup()


def test_kernelspecs_of_an_image_are_read_with_care() -> None:
    def one(folder: str, text: str) -> str:
        return f"{folder}/kernel.json\0{text}\0"

    printed = one("/a/ir", json.dumps(SPEC)) + one("/b/ir", json.dumps({**SPEC, "argv": ["x"]}))
    printed += one("/a/half", '{"argv": [') + one("/a/odd", "[]") + one("/a/number", "3")
    on_the_node = {"kernel_provisioner": {"provisioner_name": "evil"}, HERE: True}
    evil = {**SPEC, "metadata": {**on_the_node, "k": 1}}
    printed += one("/a/Evil", json.dumps(evil)) + one("/a/bash", json.dumps(SPEC))
    found = _read_specs(printed.encode() + b"/bash\0\0")
    assert set(found) == {"ir", "evil", "bash"}
    assert found["ir"].argv[0] == "/usr/bin/R"
    assert found["evil"].metadata == {"k": 1}
    assert found["bash"].metadata == {HERE: True}, "the image's own would need a Python there"
    assert _read_specs(b"") == {}


def test_no_kernelspec_that_was_found_runs_beside_its_container(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the container writes into the same home."""
    on_the_node = {"kernel_provisioner": {"provisioner_name": "local-provisioner"}, HERE: True}
    install(folders[1], "mine", metadata=on_the_node)
    told = json.dumps({"exec": ["/bin/false"], "image": "/i.sif", "roots": []})
    monkeypatch.setenv("PORTAL_CONTAINER", told)
    spec = SessionKernelSpecs().get_kernel_spec("mine")
    assert spec.argv[0] == "/usr/bin/R"
    assert spec.metadata == {}


async def test_variables_of_a_kernelspec_are_not_apptainers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = json.dumps({"exec": ["/bin/apptainer", "exec"], "image": "/i.sif", "roots": []})
    monkeypatch.setenv("PORTAL_CONTAINER", told)
    monkeypatch.setenv("LANG", "C.UTF-8")
    seen: dict[str, Any] = {}

    async def launched(self: Any, cmd: list[str], **kwargs: Any) -> Any:
        seen.update(kwargs, cmd=cmd)

    monkeypatch.setattr(command_line.LocalProvisioner, "launch_kernel", launched)
    own = {"LD_PRELOAD": "/home/x.so", "APPTAINER_BIND": "/:/node", "LANG": "de", "OF_SPEC": "1"}
    spec = KernelSpec(env=own)
    provisioner = SessionProvisioner(kernel_spec=spec)
    await provisioner.launch_kernel(["R"], env={**os.environ, **own})
    env = seen["env"]
    assert seen["cmd"] == ["/bin/apptainer", "exec", "/i.sif", "R"]
    assert not {"LD_PRELOAD", "APPTAINER_BIND", "OF_SPEC"} & set(env)
    assert env["LANG"] == "C.UTF-8"
    assert env["APPTAINERENV_OF_SPEC"] == "1"
    assert env["APPTAINERENV_LANG"] == "de"


def test_secrets_and_the_nodes_own_places_stay_out_of_the_container() -> None:
    told = json.dumps(
        {"exec": ["/bin/apptainer", "exec"], "image": "/i.sif", "roots": ["/home/ada"]}
    )
    environ = {
        "PORTAL_CONTAINER": told,
        "PORTAL_PASSED": "SITE_VARIABLE PYTHONUSERBASE JUPYTERHUB_API_TOKEN",
        "SITE_VARIABLE": "s",
        "PYTHONUSERBASE": "/home/ada/.portal/r",
        "JUPYTERHUB_API_TOKEN": "secret",
        "CUDA_VISIBLE_DEVICES": "0",
        "PATH": "/opt/portal-session/bin",
        "LD_LIBRARY_PATH": "/node",
        "HOME": "/home/ada",
        "APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE",
        "APPTAINERENV_LEFT": "over",
        "OF_SPEC": "1",
    }
    container = Container.from_environ(environ)
    assert container is not None
    env = container.environment(environment.for_commands(environ), ("OF_SPEC",))
    prefix = "APPTAINERENV_"
    inside = {n.removeprefix(prefix): v for n, v in env.items() if n.startswith(prefix)}
    assert inside == {
        "SITE_VARIABLE": "s",
        "PYTHONUSERBASE": "/home/ada/.portal/r",
        "CUDA_VISIBLE_DEVICES": "0",
        "OF_SPEC": "1",
        "PREPEND_PATH": "/home/ada/.portal/r/bin",
    }
    assert env["APPTAINER_DROP_CAPS"] == "CAP_SYS_RESOURCE"
    assert "secret" not in env.values()
    assert container.command(["x"], "/home/ada/w")[-4:] == ["--pwd", "/home/ada/w", "/i.sif", "x"]
    assert container.command(["x"], "/home/adam") == ["/bin/apptainer", "exec", "/i.sif", "x"]
    assert container.command(["x"], "/home/ada/../eve")[-2:] == ["/i.sif", "x"]
    copied = Container.from_environ({**environ, "PORTAL_IMAGE": "/local/copy"})
    assert copied is not None
    assert copied.image == "/local/copy"
    singularity = {**environ, "PORTAL_CONTAINER": told.replace("apptainer", "singularity")}
    other = Container.from_environ(singularity)
    assert other is not None
    assert "SINGULARITYENV_SITE_VARIABLE" in other.environment(environ)
    gpus = {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}
    amd = Container.from_environ({**environ, "PORTAL_GPU_VENDOR": "amd"})
    assert amd is not None
    passed = amd.environment({**environ, **gpus})
    assert passed["APPTAINERENV_ROCR_VISIBLE_DEVICES"] == "1"
    assert passed["APPTAINERENV_HIP_VISIBLE_DEVICES"] == "0"
    assert "APPTAINERENV_CUDA_VISIBLE_DEVICES" not in passed
    for broken in ("", "{", "[]", '{"exec": []}'):
        assert Container.from_environ({"PORTAL_CONTAINER": broken}) is None


def named(process: psutil.Process, name: str) -> list[psutil.Process]:
    """The descendants that are called ``name``."""
    found = []
    for one in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.name() == name:
                found.append(one)
    return found


# -- in a container ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Apptainer, and an image with a shell and no Python."""
    apptainer = program()
    made = tmp_path_factory.mktemp("images") / "bare.sif"
    subprocess.run(
        [apptainer, "build", "--mksquashfs-args", "-comp zstd -Xcompression-level 3", made,
         f"oci:{images.bare().layout}"],
        env={**os.environ, **apptainer_environment()}, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    return apptainer, made


@pytest.fixture
def beside(
    image: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The home of a session whose server is this process, beside that image."""
    apptainer, made = image
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    environment = Environment(
        name="e", title="E", kind="container", image=str(made), server="beside"
    )
    told = kernel_container(environment, Resources(), home=str(home), apptainer=str(apptainer))
    for name, value in {
        **apptainer_environment(),
        "PORTAL_CONTAINER": told,
        "PORTAL_PASSED": "GREETING",
        "GREETING": "hello of the session",
        "HOME": str(home),
        "APPTAINER_HOME": str(home),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTERHUB_API_TOKEN": "secret",
        "SLURM_JOB_ID": "42",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PORTAL_KERNELS", raising=False)
    yield home


class Kernel:
    """A kernel of the session, and what it prints."""

    def __init__(self, manager: AsyncKernelManager) -> None:
        self.manager = manager
        self.client = manager.client()
        self.client.start_channels()

    async def run(self, code: str, until: str = "") -> str:
        """All that ``code`` printed, or what it had when ``until`` stood in it."""
        asked, said = self.client.execute(code), ""
        while True:
            message = await self.client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                said += content["text"]
                if until and until in said:
                    return said
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return said


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the session's package."""
    return make_python(tmp_path_factory.mktemp("python") / "venv")


@pytest.fixture
async def bash(
    beside: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Kernel]:
    monkeypatch.setattr(kernels, "sys", SimpleNamespace(executable=str(python)))
    where = f"{SessionProvisioner.__module__}:{SessionProvisioner.__name__}"
    point = EntryPoint(PROVISIONER, where, KernelProvisionerFactory.GROUP_NAME)
    KernelProvisionerFactory.instance().provisioners[PROVISIONER] = point
    specs = SessionKernelSpecs()
    assert list(specs.find_kernel_specs()) == ["bash"]
    server = a_server()
    server.kernel_spec_manager = specs
    _load_jupyter_server_extension(server)
    manager = AsyncKernelManager(kernel_name="bash", kernel_spec_manager=specs)
    await manager.start_kernel(cwd=str(beside / "work"))
    assert isinstance(manager.provisioner, SessionProvisioner)
    kernel = Kernel(manager)
    try:
        await kernel.client.wait_for_ready(timeout=PATIENCE)
        yield kernel
    finally:
        kernel.client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def test_a_bash_of_the_image_without_python(bash: Kernel, beside: Path) -> None:
    assert "bare" in await bash.run("cat /etc/image-of-the-tests")
    assert await bash.run('echo "$GREETING"; pwd; type python3 >/dev/null 2>&1 || echo none') == (
        f"hello of the session\n{beside}/work\nnone\n"
    )
    printed = await bash.run("env")
    assert "secret" not in printed
    assert "SLURM_JOB_ID" not in printed
    assert "PORTAL_JOB_ID=42" in printed


async def test_an_interrupt_ends_the_command_and_not_the_kernel(bash: Kernel) -> None:
    await bash.run("kept=7")
    asked = awake()
    running = asyncio.ensure_future(bash.run("echo began; sleep 300; echo over"))
    while not named(psutil.Process(), "sleep"):
        await asyncio.sleep(0.05)
        assert awake() - asked < PATIENCE
    await bash.manager.interrupt_kernel()
    said = await asyncio.wait_for(running, PATIENCE)
    assert "began" in said
    assert "over" not in said
    assert await bash.run("echo $kept") == "7\n"


async def test_a_kernel_in_the_container_ends_with_it_and_is_interrupted_once(
    beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernelspec of the image: ``sh`` stands for a kernel, and counts its interrupts."""
    count = 'n=0; trap "n=\\$((n+1)); echo \\$n >>~/count" INT; while :; do sleep 0.1; done'
    install(beside / "data", "counting", argv=["/bin/sh", "-c", count, "{connection_file}"])
    specs = SessionKernelSpecs()
    provisioner = SessionProvisioner(kernel_id="k", kernel_spec=specs.get_kernel_spec("counting"))
    argv = [one.replace("{connection_file}", "/c") for one in provisioner.kernel_spec.argv]
    await provisioner.launch_kernel(argv, env=dict(os.environ), start_new_session=True)
    assert provisioner.process is not None
    family = psutil.Process(provisioner.process.pid)
    counted = beside / "count"
    try:
        deadline = time.monotonic() + PATIENCE
        while not named(family, "sleep"):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        inner = named(family, "sh")[0]  # one that begins has this name for a moment
        told: list[int] = []
        monkeypatch.setattr(
            environment.os, "kill", lambda pid, s: told.append(pid) or os_kill(pid, s)
        )
        await provisioner.send_signal(signal.SIGINT)
        # Apptainer would pass it on, so that the kernel had it a second time.
        assert inner.pid in told
        assert provisioner.process.pid not in told
        while not counted.exists() or not counted.read_text():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        assert counted.read_text() == "1\n"
        assert await provisioner.poll() is None
        inner.kill()
        while await provisioner.poll() is None:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        assert await provisioner.poll() != 0
    finally:
        await provisioner.kill()
        await provisioner.wait()


async def test_a_kernel_in_the_container_has_the_folder_of_its_sockets(beside: Path) -> None:
    """Also where the container does not see the node's folder for temporary files."""
    folder = Path(tempfile.mkdtemp(prefix="portal-k-", dir="/srv"))
    install(beside / "data", "sockets", argv=["/bin/sh"])
    specs = SessionKernelSpecs()
    manager = AsyncKernelManager(transport="ipc", ip=f"{folder}/1", kernel_spec_manager=specs)
    spec = specs.get_kernel_spec("sockets")
    provisioner = SessionProvisioner(kernel_id="k", kernel_spec=spec, parent=manager)
    argv = ["/bin/sh", "-c", f"echo seen >{folder}/1-5"]
    try:
        await provisioner.launch_kernel(argv, env=dict(os.environ), start_new_session=True)
        assert await provisioner.wait() == 0
        assert (folder / "1-5").read_text() == "seen\n"
        await provisioner.cleanup()
        assert list(folder.iterdir()) == [], "its sockets are removed with it"
    finally:
        shutil.rmtree(folder)


def test_a_terminal_is_a_shell_in_the_container(beside: Path) -> None:
    from jupyter_server_terminals.terminalmanager import TerminalManager

    manager = TerminalManager(shell_command=["/bin/false"])
    _load_jupyter_server_extension(a_server(terminal_manager=manager))
    env = manager.make_term_env()
    done = subprocess.run(
        manager.shell_command,
        env=env,
        input='cat /etc/image-of-the-tests; echo "$0 $GREETING $JUPYTERHUB_API_TOKEN"\n',
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout == "bare\nbash hello of the session \n", done.stderr


def test_a_container_that_does_not_start_has_no_kernels(
    beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_IMAGE", "/nonexistent.sif")
    assert SessionKernelSpecs().find_kernel_specs() == {}
    monkeypatch.delenv("PORTAL_CONTAINER")
    with pytest.raises(SystemExit, match="no container"):
        container_bash.main()


def test_the_bash_kernel_reads_no_settings_that_the_container_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = json.dumps({"exec": ["/bin/false"], "image": "/i.sif", "roots": [str(tmp_path)]})
    monkeypatch.setenv("PORTAL_CONTAINER", told)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    seen: dict[str, Any] = {}

    def launch(**told: Any) -> None:
        folder = Path(os.environ["IPYTHONDIR"])
        seen.update(told, folder=folder, mode=folder.stat().st_mode)

    monkeypatch.setattr(IPKernelApp, "launch_instance", launch)
    for module, name in ((pexpect, "spawn"), (bash_kernel, "check_output")):
        monkeypatch.setattr(module, name, getattr(module, name))  # main() replaces them
    container_bash.main()
    assert seen["ignore_cwd"] is True
    assert not seen["folder"].is_relative_to(tmp_path)
    assert seen["mode"] & 0o777 == 0o700
    assert not seen["folder"].exists()
