"""What terminals and kernels of a session find in their environment."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning import KernelProvisionerBase, KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_server_terminals.terminalmanager import TerminalManager
from portal_session.kernels.command_line import (
    PROVISIONER,
    SessionProvisioner,
    _load_jupyter_server_extension,
)
from portal_session.kernels.container import HERE
from portal_session.kernels.environment import for_commands
from portal_session.measurements.memory import job_memory
from traitlets.config import Config

# As slurmd of 22.05 sets them, and what the portal, JupyterHub and Apptainer add.
OF_A_SESSION = {
    "HOME": "/home/ada",
    "PATH": "/usr/bin",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
    "SLURM_TIME_FORMAT": "%H:%M",
    "SLURM_JOB_ID": "42",
    "SLURM_JOBID": "42",
    "SLURM_NTASKS": "1",
    "SLURM_MEM_PER_NODE": "4096",
    "SLURM_CPUS_PER_TASK": "2",
    "SLURM_TRES_PER_TASK": "cpu=2",
    "SLURM_EXPORT_ENV": "ALL",
    "SLURM_CLUSTER_NAME": "portal",
    "SLURMD_NODENAME": "gpu01",
    "ENVIRONMENT": "BATCH",
    "SBATCH_ACCOUNT": "research",  # the person's own default
    "JUPYTERHUB_API_TOKEN": "secret",
    "JPY_API_TOKEN": "secret",
    "JUPYTERHUB_SERVICE_PREFIX": "/user/ada/",
    "APPTAINERENV_JUPYTERHUB_API_TOKEN": "secret",
    "APPTAINER_BIND": "/etc/passwd",
    "APPTAINER_NAME": "jupyterlab.sif",
    "PYTHONUSERBASE": "/home/ada/.portal/jupyterlab",
}
STAYS = {
    "HOME", "PATH", "CUDA_VISIBLE_DEVICES", "SLURM_CONF", "SLURM_TIME_FORMAT", "SBATCH_ACCOUNT",
    "JUPYTERHUB_SERVICE_PREFIX", "APPTAINER_NAME", "PYTHONUSERBASE", "SLURMD_NODENAME",
}  # fmt: skip


def test_the_job_and_its_secrets_are_taken_out() -> None:
    found = for_commands(OF_A_SESSION)
    assert found.keys() == {*STAYS, "PORTAL_JOB_ID"}
    assert found["PORTAL_JOB_ID"] == "42"
    assert all(found[name] == OF_A_SESSION[name] for name in STAYS)
    assert for_commands({"A": "b"}) == {"A": "b"}


def test_what_a_site_keeps_stays() -> None:
    kept = "JUPYTERHUB_API_TOKEN  SLURM_CPUS_PER_TASK NOT_THERE"
    found = for_commands({**OF_A_SESSION, "PORTAL_KEPT_VARIABLES": kept})
    assert found.keys() == {
        *STAYS, "PORTAL_JOB_ID", "JUPYTERHUB_API_TOKEN", "SLURM_CPUS_PER_TASK",
    }  # fmt: skip


def a_server(**settings: Any) -> Any:
    return SimpleNamespace(web_app=SimpleNamespace(settings=settings), config=Config())


@pytest.fixture(autouse=True)
def provisioners() -> Iterator[KernelProvisionerFactory]:
    KernelProvisionerFactory.clear_instance()
    yield KernelProvisionerFactory.instance()
    KernelProvisionerFactory.clear_instance()


def test_terminals_get_that(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OF_A_SESSION.items():
        monkeypatch.setenv(name, value)
    manager = TerminalManager(shell_command=["sh"], extra_env={"MORE": "1"})
    _load_jupyter_server_extension(a_server(terminal_manager=manager))
    found = manager.make_term_env(24, 80)
    assert found["MORE"] == "1" and found["TERM"] and found["PORTAL_JOB_ID"] == "42"
    assert "SLURM_JOB_ID" not in found and "secret" not in found.values()


def test_kernels_are_started_so_unless_a_site_has_its_own_way(
    provisioners: KernelProvisionerFactory,
) -> None:
    _load_jupyter_server_extension(a_server())
    assert provisioners.default_provisioner_name == PROVISIONER
    provisioners.default_provisioner_name = "of-the-site"
    _load_jupyter_server_extension(a_server())
    assert provisioners.default_provisioner_name == "of-the-site"


async def test_kernels_get_that(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OF_A_SESSION.items():
        monkeypatch.setenv(name, value)
    spec = KernelSpec(argv=["python3"], env={"OF_THE_SPEC": "${SLURM_CPUS_PER_TASK} CPUs"})
    provisioner = SessionProvisioner(kernel_id="k", kernel_spec=spec)
    launch = await KernelProvisionerBase.pre_launch(provisioner, cmd=["python3"])
    found = launch["env"]
    assert found["OF_THE_SPEC"] == "2 CPUs"
    assert found["PORTAL_JOB_ID"] == "42" and found["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "SLURM_JOB_ID" not in found and "secret" not in found.values()


@pytest.mark.parametrize(
    ("language", "metadata", "beside", "is_set"),
    [
        ("python", {}, "", True),
        ("R", {}, "", False),
        ("python", {HERE: True}, "", False),  # the relay of a kernel in a job of its own
        ("python", {}, json.dumps({"exec": ["a"], "image": "i", "roots": []}), False),
    ],
)
async def test_python_kernels_get_a_startup_file(
    language: str, metadata: dict[str, Any], beside: str, is_set: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    launched: dict[str, Any] = {}

    async def launch(_: Any, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        launched.update(kwargs["env"])
        return {}

    monkeypatch.setattr(LocalProvisioner, "launch_kernel", launch)
    monkeypatch.setenv("PORTAL_CONTAINER", beside)
    spec = KernelSpec(argv=["python3"], language=language, metadata=metadata)
    provisioner = SessionProvisioner(kernel_id="k", kernel_spec=spec)
    provisioner.parent = KernelManager(kernel_name="python3")
    await provisioner.launch_kernel(["python3"], env={"PYTHONSTARTUP": "/home/ada/mine.py"})
    if is_set:
        startup = Path(launched["PYTHONSTARTUP"])
        assert startup.name == "startup.py" and startup.is_file()
        assert launched["PORTAL_PYTHONSTARTUP"] == "/home/ada/mine.py"
        assert launched["PORTAL_KERNEL_NAME"] == "python3"
    else:
        assert launched["PYTHONSTARTUP"] == "/home/ada/mine.py"
        assert "PORTAL_KERNEL_NAME" not in launched


@pytest.mark.parametrize(
    ("environ", "counts"),
    [
        ("SLURM_JOB_ID=42", True),  # the server itself
        ("PORTAL_JOB_ID=42", True),  # its terminals and kernels
        ("PORTAL_JOB_ID=42\0SLURM_JOB_ID=43", False),  # a job that was submitted from one
        ("PORTAL_JOB_ID=421", False),
        ("HOME=/", False),
    ],
)
def test_memory_counts_terminals_and_kernels_but_not_their_jobs(
    tmp_path: Path, environ: str, counts: bool
) -> None:
    process = tmp_path / "proc/7"
    process.mkdir(parents=True)
    (process / "environ").write_text(f"A=1\0{environ}\0")
    (process / "statm").write_text("9 512000 0\n")
    used, _ = job_memory("42", tmp_path)
    assert bool(used) is counts


def test_the_package_says_where_its_provisioner_is() -> None:
    project = Path(__file__).resolve().parents[3] / "kernels/pyproject.toml"
    groups = tomllib.loads(project.read_text())["project"]["entry-points"]
    where = groups[KernelProvisionerFactory.GROUP_NAME][PROVISIONER]
    assert where == f"{SessionProvisioner.__module__}:{SessionProvisioner.__name__}"
