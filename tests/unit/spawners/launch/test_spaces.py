"""A type of spaces beside courses: its sessions, of any kind, need no code of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import ADA, gpu_node, snapshot
from traitlets.config import Config

from portal.catalog.availability import Offer
from portal.directory.hub_people import HubPeople
from portal.errors import ConfigurationError, InvalidRequest, NotAllowed, NotFound
from portal.features import FEATURES, Feature, add_features
from portal.launch.kinds import (
    KINDS,
    Address,
    Kind,
    add_kinds,
    own_options,
    requested_kind,
    reserved_for,
)
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import LaunchFacts, Place
from portal.launch.request import Asked, option_keys
from portal.models.catalog.environment import Bind, Environment
from portal.models.session.resources import Resources
from portal.models.space import Member, Role, Space, SpaceState, StoredSpace
from portal.spaces.job_space import MINE, JobSpace, Reserved
from portal.spaces.membership_cache import MembershipCache
from portal.spaces.registry import SPACES, add_spaces, requested_space, type_of
from portal.work.run.kind import Run
from spawners.form.form import LaunchForm
from spawners.launch.budgets import Budgets
from spawners.launch.spaces import place_in_space, space_form

LAB = Environment(
    name="lab",
    title="Lab",
    kind="container",
    image="/i/lab.sif",
    binds=(Bind(source="/scratch", read_only=False), Bind(source="/models")),
)


class Team(Space):
    noun = "team"

    environment: str


class TeamSpace(JobSpace):
    noun = option = "team"
    group_prefix = "team-"

    @classmethod
    def named(cls, value: object) -> TeamSpace | None:
        return cls(name=str(value)) if value else None

    @classmethod
    def reserves(cls, server: str) -> Reserved | None:
        match = re.fullmatch("team-(.+)", server)
        return Reserved(match[1], "jupyterlab") if match else None

    def script_variables(self, account: str, home: str, folder: str) -> dict[str, str]:
        return {"PORTAL_TEAM_FOLDER": f"/teams/{folder}"}


class App(Kind):
    """Kind that says nothing of spaces but that it may be in one."""

    name = "app"
    title = "an app"

    @classmethod
    def read(cls, options: Any) -> App | None:
        return cls(space=requested_space(options)) if options.get("kind") == "app" else None


class StoredTeam(StoredSpace):
    team: Team

    @property
    def space(self) -> Team:
        return self.team


@pytest.fixture(autouse=True)
def _added() -> Iterator[None]:
    kinds, spaces, features = list(KINDS), list(SPACES), list(FEATURES)
    add_features(Feature("team", spaces=(TeamSpace,)))
    add_kinds(App)
    yield
    KINDS[:], SPACES[:], FEATURES[:] = kinds, spaces, features


def stored(state: SpaceState = SpaceState.APPROVED, **changes: Any) -> StoredTeam:
    team = Team(
        name="proteins",
        title="Proteins",
        environment="lab",
        account="bio",
        largest=Resources(gpus=2, cpus=8),
        **changes,
    )
    return StoredTeam(
        team=team, state=state, pinned=LAB, created_by="bob", created_at=0, changed_at=0
    )


async def placed(kind: Kind, saved: StoredTeam, *, used: float = 0.0, **options: Any) -> Place:
    async def none(*_: Any, **__: Any) -> None:
        pass

    async def membership(person: str, name: str) -> Any:
        assert (person, name) == ("ada", "proteins")
        return SimpleNamespace(stored=saved, role=Role.STUDENT)

    async def offer_for(environment: Environment) -> Offer:
        return Offer(environment)

    async def of_space(space: str) -> float:
        return used if space == "proteins" else 0.0

    store: Any = SimpleNamespace(usage=SimpleNamespace(of_space=of_space))
    of_teams = SimpleNamespace(of_user=none, membership=membership)
    shared = SimpleNamespace(
        memberships=SimpleNamespace(of_type={"team": of_teams}.__getitem__),
        catalog=SimpleNamespace(load=none, offering=SimpleNamespace(offer_for=offer_for)),
        budgets=Budgets(store),
    )
    spawner: Any = SimpleNamespace(
        shared=shared,
        user=SimpleNamespace(name="ada", spawners={}),
        person=ADA,
        name="team-proteins",
    )
    asked = Asked.parse({"environment": "lab", **options})
    cluster = snapshot(gpu_node("gpu01", "v100", 4))
    return await place_in_space(spawner, kind, asked, LaunchFacts(cluster, None))


def test_it_is_named_by_its_own_option_and_its_servers_are_reserved() -> None:
    kind = requested_kind({"team": "proteins"})
    assert kind == JupyterLab(space=TeamSpace(name="proteins"))
    assert kind.own() == {"team": "proteins"} and "team" in own_options()
    assert option_keys()[:3] == ("course", "project", "team")
    assert reserved_for("team-proteins") == (JupyterLab, "proteins")
    with pytest.raises(InvalidRequest, match="'team-proteins' is reserved for a team"):
        JupyterLab().at("team-proteins", JupyterLab)
    with pytest.raises(ConfigurationError, match="called 'team'"):
        add_spaces(type("Other", (TeamSpace,), {}))


def test_the_user_s_own_is_a_space_that_changes_nothing() -> None:
    assert requested_space({"environment": "lab"}) is MINE
    kind = JupyterLab()
    assert kind.space is MINE and not kind.isolated and kind.estimated
    assert (kind.own(), kind.variables(), kind.script_variables("ada", "/home/ada")) == ({}, {}, {})
    assert kind.home("ada", "/home/ada") == "/home/ada"


@pytest.mark.parametrize("kind", [JupyterLab, App])
async def test_a_session_of_any_kind_has_its_account_limits_and_folder(kind: type[Kind]) -> None:
    saved = stored(data="/data/proteins")
    place = await placed(kind(space=TeamSpace(name="proteins")), saved, gpus=1)
    environment = place.environments["lab"]
    assert (environment.default.account, environment.max_gpus) == ("bio", 2)
    assert [bind.source for bind in environment.binds] == ["/models", "/data/proteins"]
    space = place.kind.space
    assert isinstance(space, TeamSpace) and type_of(saved.space) is TeamSpace
    assert (space.title, space.role) == ("Proteins", Role.STUDENT)
    assert place.kind.script_variables("ada", "/home/ada") == {
        "PORTAL_TEAM_FOLDER": "/teams/proteins"
    }


async def test_it_says_in_its_own_words_why_not() -> None:
    kind = JupyterLab(space=TeamSpace(name="proteins"))
    with pytest.raises(NotAllowed, match="The team 'Proteins' is archived"):
        await placed(kind, stored(SpaceState.ARCHIVED))
    with pytest.raises(InvalidRequest, match="The team sets 'account'"):
        await placed(kind, stored(), account="physics")
    with pytest.raises(NotAllowed, match=r"team 'Proteins' has used its 5 GPU-hours.*owner"):
        await placed(kind, stored(budget=5), used=5.0, gpus=1)
    assert Run.not_offered(stored().space).startswith("The team 'Proteins' does not allow runs")


async def test_its_launch_page_is_one_button() -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise NotAllowed("There is no team 'proteins' that you can access.")

    of_teams = SimpleNamespace(of_user=away)
    shared = SimpleNamespace(
        memberships=SimpleNamespace(of_type={"team": of_teams}.__getitem__),
        form=LaunchForm(config=Config()),
    )
    spawner: Any = SimpleNamespace(
        name="team-proteins", user=SimpleNamespace(name="ada"), shared=shared
    )
    html = await space_form(spawner, Address(JupyterLab, "proteins"), ())
    assert '<input type="hidden" name="team" value="proteins">' in html
    assert "There is no team" in html and "disabled" in html


class TeamMember(Member):
    team: str

    @property
    def space(self) -> str:
        return self.team


async def test_memberships_are_of_any_space() -> None:
    asked: list[str] = []

    async def space(name: str) -> StoredTeam:
        asked.append(name)
        return stored()

    async def members(person: str) -> list[TeamMember]:
        asked.append(person)
        mine = TeamMember(person=person, role=Role.STUDENT, team="proteins")
        return [mine] if person == "ada" else []

    cache = MembershipCache(space, members)
    assert cache.known_to("ada") == []
    for _ in range(2):
        membership = await cache.membership("ada", "proteins")
        assert (membership.stored.name, membership.role) == ("proteins", Role.STUDENT)
    assert asked == ["ada", "proteins"]
    assert list(await cache.mine("ada")) == ["proteins"]
    assert [known.stored.name for known in cache.known_to("ada")] == ["proteins"]
    for person, name in (("bob", "proteins"), ("ada", "other")):
        nothing = f"no course or project or team '{name}' that you can access"
        with pytest.raises(NotAllowed, match=nothing):
            await cache.membership(person, name)
    cache.forget()
    assert cache.known("ada") == ()


async def test_the_group_of_a_space_is_no_roster() -> None:
    async def people_of(group: str) -> tuple[str, ...]:
        return ("ada",)

    people = HubPeople(SimpleNamespace(people_of=people_of))  # type: ignore[arg-type]
    for group, noun in (("TEAM-proteins", "team"), ("course-dl101", "course")):
        with pytest.raises(NotFound, match=f"'{group}' is the group of a {noun} and cannot"):
            await people.members_of(group)
    assert await people.members_of("teams") == ("ada",)


@pytest.mark.parametrize(
    ("state", "closed", "runs"),
    [
        (SpaceState.APPROVED, "", True),
        (SpaceState.APPROVED, "It ended.", False),
        (SpaceState.REQUESTED, "", False),
        (SpaceState.ARCHIVED, "", False),
    ],
)
def test_a_space_runs_if_it_is_approved_and_not_closed(
    state: SpaceState, closed: str, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Team, "closed", lambda self, now: closed)
    assert stored(state).runs(1.0) is runs
