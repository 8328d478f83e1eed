"""Replicas of endpoints and workers of clusters for a project, as the Hub decides on them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import ADA, gpu_node, snapshot
from session_records import recorded
from stored_courses import a_course
from test_project_launch import BIO, OWN, Site, only, stored

from portal.errors import InvalidRequest, NotAllowed
from portal.launch.kinds import KINDS, requested_kind
from portal.launch.kinds.kind import Kind, LaunchFacts, Place
from portal.launch.policy import decide
from portal.launch.request import Asked
from portal.models.catalog.environment import Bind
from portal.models.session.resources import Resources
from portal.models.space import Role, SpaceState
from portal.projects.view import _work_item
from portal.work.cluster.kind import DaskWorker, RayWorker
from portal.work.cluster.scheduler import DaskScheduler
from portal.work.endpoint.kind import ServingReplica
from portal.work.replicas.kind import ReplicaKind
from spawners.launch.spaces import place_in_space

ID = "5e2f3c1a0b7d4c8e"
OPTIONS: dict[str, dict[str, Any]] = {
    "endpoint": {"id": ID, "number": 0, "project": "proteins"},
    "dask": {"id": ID, "number": 3, "session": "11", "project": "proteins"},
    "ray": {"id": ID, "number": 3, "session": "11", "project": "proteins"},
}


async def placed(
    site: Site, option: str, held: Any = (), successor: str = "", **more: Any
) -> Place:
    """Place such a replica of ada's, who holds these other sessions."""
    asked = Asked.parse({option: OPTIONS[option], "environment": "lab", **more})
    kind: Kind = asked.kind
    if successor:
        kind = kind.model_copy(update={"successor_of": successor})
    spawner: Any = SimpleNamespace(
        shared=site.shared,
        user=SimpleNamespace(name="ada", spawners=dict(enumerate(held))),
        person=ADA,
        name="none",
    )
    facts = LaunchFacts(snapshot(gpu_node("gpu01", "v100", 4)), (BIO, OWN))
    return await place_in_space(spawner, kind, asked, facts)


def holding(work: str, gpus: int, **options: Any) -> Any:
    return SimpleNamespace(
        work=work, space="proteins", job_id="7", active=True,
        last_options={"gpus": gpus, **options},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "kind"), [("endpoint", ServingReplica), ("dask", DaskWorker), ("ray", RayWorker)]
)
async def test_they_have_its_account_limits_and_folder(
    option: str, kind: type[Kind], tmp_path: Path
) -> None:
    (tmp_path / "proteins").mkdir()
    wide = stored(default=Resources(gpus=1, nodes=2))
    site = Site(wide, Role.MEMBER, str(tmp_path))
    place = await placed(site, option)
    environment, folder = only(place), str(tmp_path / "proteins")
    assert isinstance(place.kind, kind) and place.kind.space_name == "proteins"
    default = environment.default
    assert (default.account, default.gpus, default.nodes) == ("bio", 1, 1)
    assert environment.max_gpus == 2
    assert environment.binds[-1] == Bind(source=folder, read_only=False)
    variables = place.kind.variables()
    assert variables["PORTAL_PROJECT_FOLDER"] == folder
    assert "JUPYTERHUB_ROOT_DIR" not in variables


@pytest.mark.parametrize("option", OPTIONS)
async def test_the_job_is_charged_to_the_projects_account(option: str) -> None:
    place = await placed(Site(stored(), Role.MEMBER), option, gpus=1)
    asked = Asked.parse({option: OPTIONS[option], "environment": "lab", "gpus": 1})
    request = decide(
        asked, ADA, place.environments, place.snapshot, (BIO, OWN), Resources(), kind=place.kind
    )
    assert request.resources.account == "bio"
    again = request.options()
    assert again[option]["project"] == "proteins" and "account" not in again
    assert requested_kind(again) == asked.kind
    with pytest.raises(InvalidRequest, match="The project sets 'account'"):
        await placed(Site(stored(), Role.MEMBER), option, account="ada")


@pytest.mark.parametrize("option", OPTIONS)
async def test_a_reader_an_outsider_and_an_archived_project_have_none(option: str) -> None:
    noun = "replica" if option == "endpoint" else "worker"
    with pytest.raises(NotAllowed, match=f"You are a reader .* cannot start a {noun} in it"):
        await placed(Site(stored(), Role.READER), option)
    with pytest.raises(NotAllowed, match="no project 'proteins' that you can access"):
        await placed(Site(stored(), None), option)
    with pytest.raises(NotAllowed, match="is archived"):
        await placed(Site(stored(SpaceState.ARCHIVED), Role.MEMBER), option)


@pytest.mark.parametrize("option", OPTIONS)
async def test_a_budget_that_is_used_up_launches_none_with_gpus(option: str) -> None:
    site = Site(stored(budget=5, default=Resources(gpus=1)), Role.MEMBER)
    site.used = 5.0
    with pytest.raises(NotAllowed, match="The project 'Proteins' has used its 5 GPU-hours"):
        await placed(site, option)
    assert only(await placed(site, option, gpus=0)).max_gpus == 0


async def test_their_gpus_are_within_what_a_member_has_at_once() -> None:
    site = Site(stored(), Role.MEMBER)  # 2 GPUs
    one = holding("dask-worker", 1)
    await placed(site, "endpoint", [one], gpus=1)
    with pytest.raises(NotAllowed, match="your endpoints and clusters have 1") as refused:
        await placed(site, "endpoint", [one], gpus=2)
    assert "2 GPUs at once" in str(refused.value)
    with pytest.raises(
        NotAllowed, match="End an endpoint or a cluster or give your session fewer GPUs first"
    ):
        await placed(site, "ray", [one, holding("jupyterlab", 1)], gpus=1)
    elsewhere = SimpleNamespace(**{**vars(one), "space": ""})
    await placed(site, "endpoint", [elsewhere], gpus=2)


async def test_a_successor_takes_the_gpus_of_its_predecessor() -> None:
    site = Site(stored(), Role.MEMBER)
    old = holding("endpoint", 2, endpoint={"id": "old", "number": 0})
    await placed(site, "endpoint", [old], successor="old", gpus=2)
    with pytest.raises(NotAllowed, match="your endpoints and clusters have 2"):
        await placed(site, "endpoint", [old], gpus=2)


def test_a_course_has_none_and_a_project_no_kept_cluster() -> None:
    replicas = [kind for kind in KINDS if issubclass(kind, ReplicaKind)]
    assert {ServingReplica, DaskWorker, RayWorker, DaskScheduler} <= set(replicas)
    project = stored().project
    for kind in replicas:
        assert "not offered in " in kind.not_offered(a_course())
        assert bool(kind.not_offered(project)) == (kind is DaskScheduler)
    assert DaskScheduler.not_offered(project).startswith("Kept clusters are not offered in a proj")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ("code-server", "code-server"), ("marimo", "marimo"),
        ("jupyterlab", "session"), ("endpoint", "replica"), ("ray-worker", "worker"),
    ],
)  # fmt: skip
def test_the_page_says_which_program_a_session_opens(work: str, words: str) -> None:
    record = recorded(id="1", user="ada", submitted_at=0, work=work, space="proteins")
    item = _work_item(record, "Proteins", None)
    assert item.kind == words
