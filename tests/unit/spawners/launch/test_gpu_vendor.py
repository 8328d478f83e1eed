"""A launch on GPUs of either vendor: what reaches sbatch."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from portal.gpus.settings import Gpus
from portal.images.settings import Images
from portal.launch.request import LaunchRequest
from portal.models.catalog.environment import Environment
from portal.models.session.resources import Resources
from portal.setting import SiteSettings
from spawners.launch.submit import submit

BOTH = Gpus(vendor_of_type={"mi300x": "amd"})


async def submitted(
    gpu_type: str | None, gpus: int = 1, **more: Any
) -> tuple[list[str], dict[str, str]]:
    """The argv and the environment that sbatch gets."""
    seen: list[Any] = []

    async def take(argv: list[str], *, env: dict[str, str], user: str) -> str:
        seen[:] = [argv, env]
        return "1"

    async def home() -> str:
        return "/home/ada"

    shared = SimpleNamespace(
        gpus=BOTH,
        images=Images(beside="/opt/portal-session"),
        cluster=SimpleNamespace(submit=take),
        settings=SiteSettings(),
    )
    spawner: Any = SimpleNamespace(
        shared=shared, user=SimpleNamespace(name="ada"), account="ada", name="", home=home,
        apptainer="/bin/apptainer", container_binds=tuple, binds=[], tensorboard_roots=[],
        tensorboard_memory=1024, cmd=[], get_args=list, get_env=dict, service_url="",
        telemetry_interval=0, kept_variables=[], session_umask="0077", cert_paths=None,
        log_directory="/log", api_token="", ip="", port=0, listen_address="0.0.0.0",
        welcome_notebook="",
    )  # fmt: skip
    environment = Environment(name="c", title="C", kind="container", image="/i/c.sif", **more)
    resources = Resources(gpus=gpus, gpu_type=gpu_type)
    request = LaunchRequest(environment=environment, resources=resources)
    await submit(spawner, request, "log")
    argv, env = seen
    return argv, env


@pytest.mark.parametrize("gpu_type", ["v100", None])
async def test_a_session_on_nvidias_gpus(gpu_type: str | None) -> None:
    argv, env = await submitted(gpu_type)
    assert "--nv" in argv and "--rocm" not in argv
    assert not any("GPU" in name for name in env), "as before there was another vendor"


async def test_a_session_on_amds_gpus() -> None:
    argv, env = await submitted("mi300x")
    assert "--rocm" in argv and "--nv" not in argv
    assert env["PORTAL_GPU_VARIABLES"] == "ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES"
    assert env["APPTAINERENV_PORTAL_GPU_VENDOR"] == "amd"


async def test_a_server_beside_its_container_on_amds_gpus() -> None:
    argv, env = await submitted("mi300x", server="beside")
    assert "--rocm" not in argv
    assert "--rocm" in json.loads(env["APPTAINERENV_PORTAL_CONTAINER"])["exec"]
    assert env["APPTAINERENV_PORTAL_GPU_VENDOR"] == "amd"


async def test_a_session_without_gpus() -> None:
    argv, _ = await submitted(None, gpus=0)
    assert not {"--nv", "--rocm"} & set(argv)
