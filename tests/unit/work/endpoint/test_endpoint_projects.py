"""Endpoints of projects: their replicas, who may use them, a leaver, and the Hub's decision."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_hub import FakeHub
from launch_lookup import PlayedLookup
from test_endpoint_kind import ID, LAB, REPLICA, SET
from test_keeper import NOW, PlayedGateway, Site

from portal.directory.ldap import LdapDirectory
from portal.errors import NotAllowed
from portal.gateway.keys import ensure_identity
from portal.launch.kinds import requested_kind
from portal.launch.kinds.kind import AskedFor, LaunchFacts, OtherLaunch, Place
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.session.resources import Resources
from portal.models.session.session import SessionState
from portal.models.space import Role, SpaceState
from portal.notices import Notices
from portal.projects.models import Project, ProjectMember, StoredProject
from portal.projects.people.leaving import Leaving
from portal.projects.people.members import ProjectMembers
from portal.projects.settings import Projects
from portal.projects.tables import ProjectTable
from portal.store import Store
from portal.work.endpoint.keeping.spaces import GRACE
from portal.work.endpoint.kind import in_space
from portal.work.endpoint.tables import EndpointVersionTable
from portal.work.member_gpus import MemberGpus, held_gpus, too_many

LOG = logging.getLogger("portal-test")
PROTEINS = Project(name="proteins", title="Proteins", largest=Resources(gpus=1), budget=100.0)
STORED = StoredProject(
    project=PROTEINS, state=SpaceState.APPROVED, created_by="olga", created_at=0, changed_at=0
)
ROLES = {"olga": Role.OWNER, "ada": Role.MEMBER, "barbara": Role.MEMBER, "rita": Role.READER}


class ProjectSite(Site):
    """The keeper's site with one project, whose look at leavers is the real one."""

    def __init__(self, store: Store, gateway: PlayedGateway, notices: Notices) -> None:
        super().__init__(store, gateway, notices)
        self.hub = FakeHub()
        self.members = ProjectMembers(store, self.memberships, LdapDirectory(), Projects(), LOG)
        self.leaving = Leaving(store, self.members, self.hub, self._note, LOG)

    async def _note(self, entry: Any) -> None:
        pass

    async def project(self, name: str = "proteins") -> StoredProject:
        stored = STORED.model_copy(
            update={"project": PROTEINS.model_copy(update={"name": name, "title": name.title()})}
        )
        members = [
            ProjectMember(project=name, person=person, role=role) for person, role in ROLES.items()
        ]
        await self.store.table(ProjectTable).add_space(stored, members)
        return stored

    def users(self) -> list[str]:
        return list(self.gateway.routes()["embed"]["users"])


@pytest.fixture
def site(store: Store, tmp_path: Path) -> ProjectSite:
    ensure_identity(tmp_path)
    return ProjectSite(store, PlayedGateway(tmp_path), Notices(store=store))


async def test_replicas_are_the_projects_and_its_members_may_use_them(site: ProjectSite) -> None:
    await site.project()
    row = await site.first(project="proteins")
    assert row.project == "proteins"
    assert (await site.sets())[row.id].options == {
        "gpus": 1, "environment": "lab", "endpoint": {"project": "proteins"},
    }  # fmt: skip
    assert site.users() == ["ada", "barbara", "olga"], "not rita, who reads"


async def test_one_of_ones_own_is_shared_with_projects(site: ProjectSite) -> None:
    await site.project()
    row = await site.first(projects=("proteins", "gone"), users=("carl",))
    assert row.project == "" and "endpoint" not in (await site.sets())[row.id].options
    assert site.users() == ["ada", "barbara", "carl", "olga"]
    stored = await site.store.table(ProjectTable).get("proteins")
    await site.members.remove(stored, "barbara")
    site.begin_service()  # what is known for seconds is forgotten
    await site.keep(NOW + 20)
    assert site.users() == ["ada", "carl", "olga"]
    archived = stored.model_copy(update={"state": SpaceState.ARCHIVED})
    await site.store.table(ProjectTable).save(archived)
    site.begin_service()
    await site.keep(NOW + 30)
    assert site.users() == ["carl"]


async def test_the_endpoints_of_one_who_leaves_end_after_a_minute(site: ProjectSite) -> None:
    stored = await site.project()
    row = await site.first(project="proteins")
    await site.begins(row, NOW, space="proteins")
    await site.members.remove(stored, "ada")
    left = NOW + 100
    await site.leaving.look_at_projects(left)
    await site.keep(left)
    assert await site.problem() == (
        "It gets no more replicas: its owner ada is no longer a member of the project 'proteins'. "
        "Another member can serve the model under a new name."
    )
    assert [each.draining_at for each in await site.rows()] == [None], "its users have a minute"
    assert site.hub.stopped == []
    await site.keep(left + GRACE - 1)
    assert [each.draining_at for each in await site.rows()] == [None]
    await site.leaving.look_at_projects(left + GRACE)
    ((user, server, reason),) = site.hub.stopped
    assert (user, server.startswith("ep-")) == ("ada", True)
    assert reason is not None and "no longer a member" in reason.words
    await site.begins(
        row, NOW, space="proteins", state=SessionState.ENDED, ended_at=left + GRACE + 1,
        ending_code="space_left", ending_message="You are no longer a member.",
    )  # fmt: skip
    await site.keep(left + GRACE + 2)
    assert await site.rows() == [], "no other one is launched"
    (version,) = await site.store.table(EndpointVersionTable).of_endpoint("embed")
    assert version.failures == 0, "the version has not failed"
    await site.members.put(stored, ["ada"], Role.MEMBER, "olga")
    site.keeper.wake("embed")
    await site.keep(left + GRACE + 4)
    assert len(await site.rows()) == 1 and await site.problem() == ""


async def test_an_owner_who_becomes_a_reader_serves_no_more(site: ProjectSite) -> None:
    stored = await site.project()
    await site.endpoint(project="proteins", least=1)
    await site.members.put(stored, ["ada"], Role.READER, "olga")
    await site.keep(NOW)
    assert await site.rows() == []
    assert (await site.problem()).startswith(
        "It gets no more replicas: ada is a reader of the project 'Proteins'"
    )
    await site.store.table(ProjectTable).save(
        stored.model_copy(update={"state": SpaceState.ARCHIVED})
    )
    await site.members.store.table(ProjectTable).members.put(
        [ProjectMember(project="proteins", person="ada", role=Role.MEMBER)]
    )
    await site.keep(NOW + 2)
    assert "is archived" in await site.problem() and await site.rows() == []


class Lookup(PlayedLookup):
    """Lookup whose spaces are a project, and which pins version 2 to other software."""

    def __init__(self, replica: Any) -> None:
        super().__init__(LAB)
        self.rows = {
            "EndpointReplicaTable": replica,
            "ReplicaSetTable": SET.model_copy(update={"replicas": 1}),
        }
        self.seen: list[Any] = []

    async def recorded(self, table: Any, id_: str) -> Any:
        return self.rows[table.__name__]

    async def pinned(self, environment: Environment, version: int) -> Environment:
        types = ("v100", "a100")
        return environment.model_copy(
            update={"path": "/opt/old", "gpu_types": types, "max_gpus": None, "title": "Catalog"}
        )

    async def in_space(self, kind: Any, asked: AskedFor, facts: LaunchFacts) -> Place:
        self.seen.append(kind)
        offered = kind.narrowed(LAB, PROTEINS, asked, gpus=True)
        offered = offered.model_copy(update={"gpu_types": ("a100", "h100")})
        return Place({"lab": offered}, facts.snapshot, kind)


async def placed(lookup: Lookup, **own: Any) -> Place:
    kind = requested_kind({"endpoint": {"id": ID, "number": 0, **own}})
    return await kind.place(
        AskedFor(environment="lab"), lookup, LaunchFacts(ClusterSnapshot(taken_at=NOW), None)
    )


async def test_the_pinned_software_has_the_projects_limits() -> None:
    lookup = Lookup(REPLICA.model_copy(update={"project": "proteins", "successor_of": "abc"}))
    place = await placed(lookup, project="proteins")
    lab = place.environments["lab"]
    assert (lab.path, lab.max_gpus, lab.gpu_types) == ("/opt/old", 1, ("a100",))
    assert lab.title == "Proteins: Lab" and lab.default.nodes == 1
    assert place.kind.own() == {"endpoint": {"id": ID, "number": 0, "project": "proteins"}}
    (kind,) = lookup.seen
    assert kind.succeeds(OtherLaunch("endpoint", "proteins", {"endpoint": {"id": "abc"}}))
    assert not kind.succeeds(OtherLaunch("endpoint", "proteins", {"endpoint": {"id": "abd"}}))


def test_software_on_none_of_the_projects_gpus_has_none() -> None:
    narrowed = LAB.model_copy(update={"gpu_types": ("a100",), "max_gpus": 2})
    assert in_space(narrowed, LAB.model_copy(update={"gpu_types": ("v100",)})).max_gpus == 0
    assert in_space(narrowed, LAB).gpu_types == ("a100",)


@pytest.mark.parametrize(("recorded", "asked"), [("proteins", {}), ("", {"project": "proteins"})])
async def test_a_replica_of_another_project_is_refused(recorded: str, asked: Any) -> None:
    with pytest.raises(NotAllowed, match="for another project, or none"):
        await placed(Lookup(REPLICA.model_copy(update={"project": recorded})), **asked)


def test_gpus_of_replicas_count_within_the_members_limit() -> None:
    launches = [
        SimpleNamespace(work=work, space="proteins", options={"gpus": 1})
        for work in ("endpoint", "dask-worker", "ray-worker")
    ]
    held = held_gpus(PROTEINS, launches)
    assert held == MemberGpus(replicas=3)
    assert held_gpus(PROTEINS.model_copy(update={"name": "other"}), launches) == MemberGpus()
    assert too_many(PROTEINS, 1, held, beside=True) == (
        "The project 'Proteins' allows each member 1 GPU at once: your endpoints and clusters have "
        "3. End an endpoint or a cluster first."
    )


async def test_what_still_runs_after_the_minute_is_drained(site: ProjectSite) -> None:
    """Whether or not the job has been stopped by then."""
    stored = await site.project()
    row = await site.first(project="proteins")
    await site.members.remove(stored, "ada")
    await site.keep(NOW + 100)
    assert [each.draining_at for each in await site.rows()] == [None]
    assert (await site.sets())[row.id].replicas == 1
    await site.keep(NOW + 100 + GRACE)
    assert [each.draining_at for each in await site.rows()] == [NOW + 100 + GRACE]
    await site.keep(NOW + 110 + GRACE)
    assert (await site.sets())[row.id].replicas == 0
