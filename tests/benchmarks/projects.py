"""Launches with two hundred projects of fifty members: what the Hub does for their space before
sbatch, with a real database and nothing in its caches, beside the same launch without projects.

Slurm's answers are given, since they are the same for both.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from clusters import gpu_node, snapshot

from portal.launch.kinds.kind import LaunchFacts
from portal.launch.policy import decide
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.cluster.cluster import Association
from portal.models.person import Person
from portal.models.session.resources import Resources
from portal.models.session.usage import JobUsage
from portal.models.space import Role, SpaceState
from portal.projects.models import Project, ProjectMember, StoredProject
from portal.projects.settings import Projects
from portal.projects.tables import ProjectTable
from portal.setting import SiteSettings
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store
from spawners.host.blocking import Blocking
from spawners.launch.budgets import Budgets
from spawners.launch.spaces import offered_spaces, place_in_space

from .report import Row

PROJECTS, MEMBERS, PEOPLE = 200, 50, 200  # so each is in fifty
TURNS, JOBS = 150, 4  # JOBS: of each member in each project, which count for its budget
_EACH = PROJECTS * MEMBERS // PEOPLE
WHAT = f"A launch with {PROJECTS} projects of {MEMBERS} members, each in {_EACH}"
_ASSOCIATION = "bio"
_LAB = Environment(name="lab", title="Lab", kind=EnvironmentKind.VENV, path="/opt/lab")


def measure() -> list[Row]:
    """Return the rows; takes half a minute."""
    return asyncio.run(_measured())


async def _measured() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="pp-") as folder:
        place = Path(folder)
        (place / "projects").mkdir()
        store = Store(url=f"sqlite:///{place}/portal.sqlite")
        await store.upgrade()
        try:
            hub = _Hub(store, place / "projects")
            without = {
                name: await _times(work) for name, work in (("own", hub.own), ("page", hub.page))
            }
            await _fill(store, place / "projects")
            own, project = await _in_turns(hub.own, hub.project)
            page = await _times(hub.page)
        finally:
            await store.close()
    goal = "at most peer + 5 ms"
    return [
        _row("for a project, the Hub's part before sbatch", project, without["own"], goal),
        _row("without one, the Hub's part before sbatch", own, without["own"], goal),
        _row("the projects that the launch page offers", page, without["page"]),
    ]


def _row(what: str, ours: list[float], before: list[float], goal: str | None = None) -> Row:
    value, peer = statistics.median(ours), statistics.median(before)
    p95 = statistics.quantiles(ours, n=20)[-1]
    name = f"{WHAT}: {what}, median (p95 {p95:.1f})"
    met = value <= peer + 5 if goal else None
    return Row(name, value, "ms", "without projects", peer, goal=goal, met=met)


class _Hub:
    """The Hub as a launch sees it, for user after user."""

    def __init__(self, store: Store, root: Path) -> None:
        self._turn = 0
        self._store = store
        self._cluster = snapshot(gpu_node("gpu01", "v100", 4))
        self._shared = SimpleNamespace(
            catalog=SimpleNamespace(load=self._loaded, visible_to=lambda person: [_LAB]),
            settings=SiteSettings(None, Projects(root=str(root))),
            blocking=Blocking(),
        )

    async def _loaded(self) -> None:
        """Do what a catalog does that has nothing new."""

    def _spawner(self) -> Any:
        """Return the spawner of the next user, in a Hub that has asked the database nothing yet."""
        self._turn += 1
        name = _person(self._turn)
        spaces = self._store.spaces
        self._shared.memberships = MembershipCache(spaces.get, spaces.of_person, spaces.named)
        self._shared.budgets = Budgets(self._store)
        user = SimpleNamespace(name=name, spawners={})
        return SimpleNamespace(
            shared=self._shared, user=user, person=Person(name=name), name="work"
        )

    async def own(self) -> None:
        """Decide on a session of the user's own."""
        self._decided(self._spawner(), Asked.parse({"gpus": 1}), None)

    async def project(self) -> None:
        """Decide on a session for a project."""
        spawner = self._spawner()
        asked = Asked.parse({"gpus": 1, "environment": "lab", "project": _project(self._turn)})
        facts = LaunchFacts(self._cluster, self._rows(spawner))
        kind = asked.kind.at("work", None)
        self._decided(spawner, asked, await place_in_space(spawner, kind, asked, facts))

    async def page(self) -> None:
        """Find the projects that the launch page offers."""
        await offered_spaces(self._spawner())

    def _rows(self, spawner: Any) -> Sequence[Association]:
        user = spawner.user.name
        return (
            Association(user=user, account=user, is_default_account=True),
            Association(user=user, account=_ASSOCIATION),
        )

    def _decided(self, spawner: Any, asked: Asked, place: Any) -> None:
        environments = place.environments if place else {_LAB.name: _LAB}
        kind = place.kind if place else asked.kind.at("work", None)
        decide(
            asked,
            spawner.person,
            environments,
            self._cluster,
            self._rows(spawner),
            Resources(),
            kind=kind,
        )


def _person(turn: int) -> str:
    return f"user{turn % PEOPLE:03}"


def _project(turn: int) -> str:
    """Return a project of that turn's user."""
    return f"project-{turn % PEOPLE:03}"


async def _fill(store: Store, root: Path) -> None:
    """Store the projects: number N has MEMBERS members from user N on; their jobs, and folders."""
    now = time.time()
    day = time.strftime("%Y-%m-%d", time.gmtime(now))
    table = store.table(ProjectTable)
    for number in range(PROJECTS):
        name = f"project-{number:03}"
        project = Project(
            name=name,
            title=f"Project {number}",
            description="What it is for. " * 20,
            account=_ASSOCIATION,
            budget=1e6,
            largest=Resources(gpus=4),
        )
        stored = StoredProject(
            project=project, state=SpaceState.APPROVED, created_by="root", created_at=now,
            changed_at=now,
        )  # fmt: skip
        people = [_person(number + offset) for offset in range(MEMBERS)]
        members = [
            ProjectMember(project=name, person=person, role=Role.MEMBER, added_at=now)
            for person in people
        ]
        await table.add_space(stored, members)
        await store.usage.add_seconds(
            [
                JobUsage(
                    job_id=f"{number}-{person}-{job}", submitted_at=1, day=day, user=person,
                    course=name, gpus=1, held=3600,
                )
                for person in people
                for job in range(JOBS)
            ]
        )  # fmt: skip
        (root / name).mkdir()


async def _times(work: Callable[[], Awaitable[None]]) -> list[float]:
    return (await _in_turns(work))[0]


async def _in_turns(*works: Callable[[], Awaitable[None]]) -> list[list[float]]:
    """Return the milliseconds of each turn, by work; they take turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(TURNS):
        for own, work in zip(times, works, strict=True):
            began = time.perf_counter()
            await work()
            own.append(1000 * (time.perf_counter() - began))
    return times
