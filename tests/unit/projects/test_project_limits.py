"""Limits of Slurm that hold a project's jobs: words with the project's name and the way out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from clusters import job, snapshot

from portal.errors import SlurmRefused
from portal.gpus.settings import Gpus
from portal.images.settings import Images
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.request import LaunchRequest
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.cluster.cluster import JobState
from portal.models.session.resources import Resources
from portal.models.space import Role
from portal.projects.space import ProjectSpace
from portal.setting import SiteSettings
from portal.spaces.job_space import MINE, JobSpace
from spawners.launch.submit import submit
from spawners.lifecycle.progress import Progress

PROTEINS = ProjectSpace(name="proteins", title="Proteins", role=Role.MEMBER)
POLICY = (
    "Slurm refused: Job violates accounting/QOS policy (job submit limit, user's size and/or time "
    "limits)."
)


@pytest.mark.parametrize(
    "said, limit",
    [
        ("AssocGrpGRESMinutes", True),
        ("AssocGrpCPUMinutesLimit", True),
        ("AssocGrpBillingMinutes", True),
        ("QOSGrpGRESMinutes", True),
        (POLICY, True),
        ("AssocGrpGRESRunMinutes", False),  # of what runs at one time: it ends with the other jobs
        ("AssocGrpCPURunMinutesLimit", False),
        ("AssocGrpGRES", False),
        ("Priority", False),
        ("", False),
        ("Slurm refused: Invalid qos specification.", False),
    ],
)
def test_which_limits_have_a_way_out(said: str, limit: bool) -> None:
    words = PROTEINS.way_out(said)
    assert bool(words) is limit
    assert not limit or ("project 'Proteins'" in words and "ask an owner" in words)
    assert MINE.way_out(said) == ""


@pytest.mark.parametrize("space, named", [(PROTEINS, True), (MINE, False)])
def test_the_page_of_a_start_says_it(space: JobSpace, named: bool) -> None:
    progress = Progress(space)
    waits = job("7", state=JobState.PENDING, nodes=(), reason="AssocGrpGRESMinutes")
    progress.see(waits, snapshot(waits), None)
    assert "a limit of the account is reached: GPU time" in progress.message
    assert ("project 'Proteins'" in progress.message) is named


async def refused(space: JobSpace, message: str) -> str:
    """Submit a session for ``space``; return the refusal's sentences."""

    async def take(argv: list[str], **_: Any) -> str:
        raise SlurmRefused(message)

    async def home() -> str:
        return "/home/ada"

    shared = SimpleNamespace(
        gpus=Gpus(),
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
    environment = Environment(name="c", title="C", kind=EnvironmentKind.CONTAINER, image="/i/c.sif")
    request = LaunchRequest(
        environment=environment, resources=Resources(gpus=1), kind=JupyterLab(space=space)
    )
    with pytest.raises(SlurmRefused) as error:
        await submit(spawner, request, "log")
    return error.value.message


async def test_a_refusal_says_it() -> None:
    said = await refused(PROTEINS, POLICY)
    assert said.startswith(POLICY) and "account of the project 'Proteins'" in said
    assert await refused(MINE, POLICY) == POLICY
    other = "Slurm refused: Invalid qos specification."
    assert await refused(PROTEINS, other) == other
