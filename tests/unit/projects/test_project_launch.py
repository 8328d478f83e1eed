"""Launches for a project: its account, limits, environments and folder, by the member's role."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import ADA, gpu_node, snapshot
from traitlets.config import Config

from portal.errors import InvalidRequest, NotAllowed, Unavailable
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import Kind, LaunchFacts, Place
from portal.launch.policy import decide
from portal.launch.request import Asked, options_from_form
from portal.models.catalog.environment import Bind, Environment, EnvironmentKind
from portal.models.cluster.cluster import Association
from portal.models.session.resources import Resources
from portal.models.space import Role, SpaceState
from portal.projects.models import Project, ProjectMember, StoredProject
from portal.projects.settings import Projects
from portal.projects.space import ProjectSpace
from portal.setting import SiteSettings
from portal.spaces.membership_cache import MembershipCache
from portal.work.kernel.kind import JobKernel
from portal.work.run.kind import Run
from spawners.form.choices import space_fields
from spawners.form.form import LaunchForm
from spawners.host.blocking import Blocking
from spawners.launch.budgets import Budgets
from spawners.launch.spaces import offered_spaces, place_in_space

LAB = Environment(
    name="lab",
    title="Lab",
    kind=EnvironmentKind.CONTAINER,
    image="/i/lab.sif",
    binds=(Bind(source="/scratch", read_only=False),),
)
VENV = Environment(name="venv", title="Venv", kind=EnvironmentKind.VENV, path="/opt/venv")
OWN = Association(user="ada", account="ada", is_default_account=True)
BIO = Association(user="ada", account="bio")
KERNEL = {"kernel": {"id": "12345678", "name": "python3", "project": "proteins"}}
RUN = {
    "run": {
        "id": "87654321", "name": "fit", "source": "fit.ipynb", "folder": "/home/ada/fit",
        "points": 1, "project": "proteins",
    }
}  # fmt: skip


def stored(state: SpaceState = SpaceState.APPROVED, **changes: Any) -> StoredProject:
    values = {"account": "bio", "largest": Resources(gpus=2), **changes}
    project = Project(name="proteins", title="Proteins", **values)
    return StoredProject(project=project, state=state, created_by="bob", created_at=0, changed_at=0)


class Site:
    """Hub with one project. ``role``: ada's in it; None: none."""

    def __init__(self, saved: StoredProject, role: Role | None, root: str = "") -> None:
        self.saved, self.role, self.used = saved, role, 0.0
        store: Any = SimpleNamespace(usage=SimpleNamespace(of_space=self._hours))
        catalog = SimpleNamespace(load=self._none, visible_to=lambda person: [LAB, VENV])
        self.shared = SimpleNamespace(
            memberships=MembershipCache(self._space, self._members, age=0.0),
            catalog=catalog,
            budgets=Budgets(store),
            settings=SiteSettings(None, Projects(root=root)),
            blocking=Blocking(),
        )

    async def _none(self) -> None:
        pass

    async def _hours(self, space: str) -> float:
        return self.used

    async def _space(self, name: str) -> StoredProject:
        return self.saved

    async def _members(self, person: str) -> Sequence[ProjectMember]:
        if self.role is None:
            return ()
        return [ProjectMember(project="proteins", person=person, role=self.role)]

    async def placed(
        self, *associations: Association, server: str = "work", **options: Any
    ) -> Place:
        asked = Asked.parse(options)
        spawner: Any = SimpleNamespace(
            shared=self.shared,
            user=SimpleNamespace(name="ada", spawners={}),
            person=ADA,
            name=server,
        )
        cluster = snapshot(gpu_node("gpu01", "v100", 4))
        kind = asked.kind.at(server, None) if asked.kind.serves else asked.kind
        return await place_in_space(spawner, kind, asked, LaunchFacts(cluster, associations))


def only(place: Place) -> Environment:
    (environment,) = place.environments.values()
    return environment


async def test_a_member_has_its_account_limits_and_writable_folder(tmp_path: Path) -> None:
    (tmp_path / "proteins").mkdir()
    site = Site(stored(), Role.MEMBER, str(tmp_path))
    place = await site.placed(BIO, OWN, project="proteins", gpus=2, environment="lab")
    environment, folder = only(place), str(tmp_path / "proteins")
    assert (environment.default.account, environment.max_gpus) == ("bio", 2)
    assert environment.binds == (
        Bind(source="/scratch", read_only=False),
        Bind(source=folder, read_only=False),
    )
    assert not place.kind.isolated and place.kind.home("ada", "/home/ada") == "/home/ada"
    assert place.kind.variables() == {
        "PORTAL_PROJECT": "proteins",
        "PORTAL_PROJECT_ROLE": "member",
        "PORTAL_PROJECT_FOLDER": folder,
        "JUPYTERHUB_ROOT_DIR": folder,
    }
    assert place.kind.script_variables("ada", "/home/ada") == {}
    asked = Asked.parse({"project": "proteins", "gpus": 2, "environment": "lab"})
    request = decide(
        asked, ADA, place.environments, place.snapshot, (BIO, OWN), Resources(), kind=place.kind
    )
    assert request.resources.account == "bio"
    again = request.options()
    assert again["project"] == "proteins" and "account" not in again


async def test_a_reader_has_a_read_only_folder_no_gpus_and_another_account(tmp_path: Path) -> None:
    (tmp_path / "proteins").mkdir()
    site = Site(stored(budget=1), Role.READER, str(tmp_path))
    site.used = 5.0  # of a budget that a reader's session does not touch
    place = await site.placed(BIO, OWN, project="proteins")
    environment = only(place)
    assert (environment.default.account, environment.max_gpus) == ("ada", 0)
    assert environment.binds[-1] == Bind(source=str(tmp_path / "proteins"), read_only=True)
    assert place.kind.variables()["PORTAL_PROJECT_ROLE"] == "reader"
    with pytest.raises(NotAllowed, match="reader of the project 'Proteins': your sessions in it"):
        await site.placed(BIO, OWN, project="proteins", gpus=1)
    with pytest.raises(NotAllowed, match="not charged to its account 'bio', and you have no other"):
        await site.placed(BIO, project="proteins")
    with pytest.raises(InvalidRequest, match="The project sets 'account'"):
        await site.placed(BIO, OWN, project="proteins", account="bio")
    for options, noun in ((KERNEL | {"gpus": 1}, "kernel"), (RUN, "run")):
        with pytest.raises(NotAllowed, match=f"reader .* you cannot start a {noun} in it"):
            await site.placed(BIO, OWN, **options)


@pytest.mark.parametrize(("options", "kind"), [(KERNEL | {"gpus": 1}, JobKernel), (RUN, Run)])
async def test_kernels_and_runs_are_charged_to_it(options: Any, kind: type[Kind]) -> None:
    place = await Site(stored(), Role.MEMBER).placed(BIO, OWN, **options, environment="lab")
    assert isinstance(place.kind, kind) and only(place).default.account == "bio"
    space = place.kind.space
    assert isinstance(space, ProjectSpace) and (space.name, space.role) == ("proteins", "member")
    assert place.kind.variables()["PORTAL_PROJECT"] == "proteins"
    assert "JUPYTERHUB_ROOT_DIR" not in place.kind.variables()


async def test_its_environments_are_those_that_it_has(tmp_path: Path) -> None:
    site = Site(stored(environments=["venv", "gone"]), Role.MEMBER)
    assert only(await site.placed(BIO, project="proteins")).name == "venv"
    with pytest.raises(NotAllowed, match="No environment with this name"):
        await site.placed(BIO, project="proteins", environment="lab")
    with pytest.raises(NotAllowed, match="None of the environments of the project"):
        await Site(stored(environments=["gone"]), Role.MEMBER).placed(BIO, project="proteins")


async def test_without_a_folder_the_session_has_none(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "proteins").symlink_to(tmp_path / "elsewhere")
    for root in ("", str(tmp_path / "nothing"), str(tmp_path)):
        place = await Site(stored(), Role.MEMBER, root).placed(BIO, project="proteins")
        assert "PORTAL_PROJECT_FOLDER" not in place.kind.variables()
        assert [bind.source for bind in only(place).binds] == ["/scratch"]


async def test_a_folder_that_does_not_answer_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hangs(path: str) -> bool:
        raise OSError("Stale file handle")

    monkeypatch.setattr("spawners.launch.projects.is_folder", hangs)
    with pytest.raises(Unavailable, match="folder of the project 'Proteins' does not answer"):
        await Site(stored(), Role.MEMBER, str(tmp_path)).placed(BIO, project="proteins")


async def test_who_is_no_member_starts_nothing() -> None:
    with pytest.raises(NotAllowed, match="no project 'proteins' that you can access"):
        await Site(stored(), None).placed(BIO, project="proteins")


async def test_it_says_why_it_has_no_sessions() -> None:
    for saved, words in (
        (stored(SpaceState.REQUESTED), "an admin of the portal must approve it first"),
        (stored(SpaceState.ARCHIVED), "is archived and has no more sessions"),
        (stored(ends="2020-02-29"), r"ended on 29 February 2020\. Its files are still there"),
    ):
        with pytest.raises(NotAllowed, match=words):
            await Site(saved, Role.OWNER).placed(BIO, project="proteins")
    site = Site(stored(budget=5), Role.OWNER)
    site.used = 5.0
    with pytest.raises(NotAllowed, match="has used its 5 GPU-hours"):
        await site.placed(BIO, project="proteins", gpus=1)


@pytest.mark.parametrize("name", ["../etc", "a--b", "A", "x" * 21, "a b", 1, ["a"], {"a": 1}])
def test_its_name_is_checked_where_it_enters(name: Any) -> None:
    with pytest.raises(InvalidRequest, match="'project' must be the name of a project"):
        Asked.parse({"project": name})


def test_the_names_of_its_sessions_are_free_but_no_course_s() -> None:
    kind = JupyterLab(space=ProjectSpace(name="proteins"))
    assert kind.at("anything", None) == kind
    with pytest.raises(InvalidRequest, match="reserved for a session of the course 'deep'"):
        kind.at("course-deep", JupyterLab)


async def test_a_course_s_member_gets_nothing_by_its_name_as_a_project() -> None:
    """Names are of one space; the type that is asked for must be its."""
    from stored_courses import a_course
    from stored_courses import stored as stored_course

    from portal.models.course.course import CourseMember

    site = Site(stored(), Role.MEMBER)

    async def members(person: str) -> Any:
        return [CourseMember(course="deep", person=person, role=Role.STUDENT)]

    async def space(name: str) -> Any:
        return stored_course(a_course("deep"))

    site.shared.memberships = MembershipCache(space, members, age=0.0)
    with pytest.raises(NotAllowed, match="no project 'deep' that you can access"):
        await site.placed(BIO, project="deep")


async def test_a_launch_is_cheap_for_a_member_of_many_projects() -> None:
    saved = {f"p{n}": stored().model_copy(update={"project": stored().project}) for n in range(200)}

    async def members(person: str) -> Any:
        return [ProjectMember(project=name, person=person, role=Role.MEMBER) for name in saved]

    asked: list[str] = []

    async def space(name: str) -> StoredProject:
        asked.append(name)
        await asyncio.sleep(0)
        return saved[name]

    cache = MembershipCache(space, members).of_type("project")
    await cache.membership("ada", "p150")
    assert asked == ["p150"]  # not one question for each of them


async def test_the_launch_page_offers_the_user_s_projects() -> None:
    closed = stored(SpaceState.ARCHIVED)
    for saved, names in ((stored(), ["proteins"]), (closed, [])):
        site = Site(saved, Role.READER)
        user = SimpleNamespace(name="ada")
        spawner: Any = SimpleNamespace(shared=site.shared, user=user)
        spaces = await offered_spaces(spawner)
        assert [space.name for space in spaces] == names
    (field,) = space_fields([stored().project], {"project": "proteins"})
    assert (field.option, field.label) == ("project", "For a project")
    assert [(choice.value, choice.selected) for choice in field.choices] == [
        ("", False),
        ("proteins", True),
    ]
    view = LaunchForm(config=Config()).view(
        snapshot(gpu_node("gpu01", "v100", 4)), [LAB], (BIO,), ADA, spaces=[stored().project]
    )
    html = LaunchForm(config=Config()).render(view)
    assert '<select class="form-select" id="launch-project" name="project">' in html
    assert options_from_form({"project": ["proteins"]}) == {"project": "proteins"}
