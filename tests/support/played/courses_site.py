"""The whole API with a real database and courses; Slurm, the Hub and the directory are
fakes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
from fake_hub import FakeHub
from session_endpoints import parts_on, person, served

from portal.assembly import Services
from portal.catalog import EnvironmentCatalog
from portal.courses.settings import Courses
from portal.errors import DirectoryUnavailable, NotFound, SlurmUnavailable
from portal.handlers.routes import endpoints
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Node, Partition
from portal.models.course.course import CourseMember
from portal.models.scope import COURSES_CREATE, COURSES_MANAGE
from portal.models.space import Role
from portal.setting import SiteSettings
from portal.store import Store
from portal.web.audit_rate_limit import AuditRateLimit
from portal.work.course.parts import CourseParts

CATALOG = {
    "lab": "name: lab\ntitle: Lab\nkind: container\nimage: /images/lab.sif\nmax_gpus: 2\n",
    "beside": "name: beside\ntitle: Beside\nkind: container\nimage: /i.sif\nserver: beside\n",
    "venv": "name: venv\ntitle: Venv\nkind: venv\npath: /opt/venv\n",
    "secret": "name: secret\ntitle: S\nkind: container\nimage: /s.sif\ngroups: [others]\n",
}
DEEP: dict[str, Any] = {
    "name": "deep",
    "title": "Deep Learning",
    "environment": "lab",
    "default": {"gpus": 1, "cpus": 2, "memory": "4G", "time": "2:00:00"},
    "largest": {"gpus": 2, "cpus": 4, "memory": "8G", "time": "4:00:00"},
    "budget": 100,
    "timezone": "Europe/Berlin",
    "begins": "2030-10-07",
    "ends": "2031-02-07",
    "weekly": [{"day": 0, "begins": "09:00", "minutes": 90}],
}
PEOPLE = {
    "barbara": person("barbara", COURSES_CREATE),  # teaches deep
    "ian": person("ian", COURSES_CREATE),  # teaches other
    "ada": person("ada"),  # assists barbara
    "student01": person("student01"),
    "eve": person("eve"),  # in no course
    "grace": person("grace", COURSES_MANAGE, COURSES_CREATE),
}


@dataclass
class Directory:
    """Fake directory: people and groups by name. ``away``: it does not answer; ``on`` False: there
    is none; ``complete`` False: other people may exist."""

    people: set[str] = field(
        default_factory=lambda: {*PEOPLE, *(f"student{n:02}" for n in range(1, 31))}
    )
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    instructors: tuple[str, ...] = ("barbara", "ian")
    away: bool = False
    on: bool = True
    complete: bool = True

    async def known(self, names: Collection[str]) -> Mapping[str, str]:
        self._answer()
        return {name: name for name in names if name in self.people}

    async def members_of(self, group: str) -> tuple[str, ...]:
        self._answer()
        if group not in self.groups:
            raise NotFound(f"The directory has no group '{group}'.")
        return self.groups[group]

    async def may_teach(self, name: str) -> bool:
        self._answer()
        return name in self.instructors

    def _answer(self) -> None:
        if self.away:
            raise DirectoryUnavailable("The directory does not answer.")


@dataclass
class Cluster:
    """Fake watcher whose accounting is a dictionary; None: accounting does not answer."""

    accounts: dict[str, tuple[Any, ...]] | None = field(default_factory=dict)
    names: tuple[str, ...] = ("teaching",)
    runner: Any = None
    limits: Any = None  # an AccountLimitsWatch; None: Slurm is away

    async def account_limits(self, name: str) -> Any:
        if self.limits is None:
            raise SlurmUnavailable("Slurm does not answer.")
        return await self.limits.of_account(name)

    async def has_account(self, name: str) -> bool | None:
        return None if self.accounts is None else name in self.names

    async def associations(self, user: str) -> tuple[Any, ...] | None:
        return None if self.accounts is None else self.accounts.get(user, ())


def snapshot(nodes: int = 2, gpus: int = 4) -> ClusterSnapshot:
    """Build a snapshot of ``nodes`` nodes with ``gpus`` V100 each, in the partition "gpu"."""
    names = tuple(f"gpu{n:02}" for n in range(1, nodes + 1))
    pools = (GpuPool(type="v100", count=gpus),)
    return ClusterSnapshot(
        taken_at=0,
        nodes={
            name: Node(
                name=name, address=name, state="IDLE", cpus=16, memory=65536, gpus=pools,
                partitions=("gpu",),
            )
            for name in names
        },
        partitions={"gpu": Partition(name="gpu", nodes=names, default=True)},
    )  # fmt: skip


class Site:
    """Endpoints served on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services, files: Path) -> None:
        self.client = client
        self.parts, self.files = parts, files
        self.directory: Directory = parts.parts_for(CourseParts).course_service.enrolment.directory  # type: ignore[assignment]
        self.hub: FakeHub = parts.hub  # type: ignore[assignment]

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"token {who}"}
        return await self.client.request(method, path, json=body, headers=headers)

    async def done(self, who: str, method: str, path: str, body: Any = None) -> Any:
        """Return the body of a request that must succeed."""
        response = await self.ask(who, method, path, body)
        assert response.status_code < 300, response.text
        return response.json() if response.content else None

    async def refused(
        self, status: int, who: str, method: str, path: str, body: Any = None
    ) -> dict[str, Any]:
        """Return the error of a request that must fail with ``status``."""
        response = await self.ask(who, method, path, body)
        assert response.status_code == status, response.text
        return dict(response.json()["error"])

    async def make(self, who: str = "barbara", **more: Any) -> dict[str, Any]:
        """Create a draft of a course by ``who``."""
        return dict(await self.done(who, "POST", "courses", {"course": DEEP | more}))

    async def approved(self, who: str = "barbara", **more: Any) -> dict[str, Any]:
        """Create an approved course, which runs on its days."""
        draft = await self.make(who, **more)
        path, number = f"courses/{draft['course']['name']}", draft["number"]
        draft = await self.done(who, "POST", f"{path}/submit", {"number": number})
        return dict(
            await self.done("grace", "POST", f"{path}/approve", {"number": draft["number"]})
        )

    async def put(self, course: str, **roles: Role) -> None:
        """Put people into a course, without any checks."""
        members = [CourseMember(course=course, person=p, role=r) for p, r in roles.items()]
        await self.parts.store.members.put(members)
        self.parts.memberships.forget()

    async def audit(self) -> list[tuple[str, str, str, str]]:
        entries, _ = await self.parts.store.audit.find(limit=500)
        return [(e.actor, e.action, e.target, str(e.outcome)) for e in entries]


@contextlib.asynccontextmanager
async def running(place: Path) -> AsyncIterator[Site]:
    """Yield a site."""
    store = Store(url=f"sqlite:///{place}/portal.sqlite", log=logging.getLogger("service"))
    await store.upgrade()
    files = place / "environments"
    files.mkdir()
    for name, text in CATALOG.items():
        (files / f"{name}.yaml").write_text(text)
    view = SimpleNamespace(snapshot=snapshot(), sessions={}, jobs={}, taken_at=0)
    parts = parts_on(
        store,
        catalog=EnvironmentCatalog(directory=str(files), store=store, offer_untested=True),
        cluster=Cluster(),
        telemetry=SimpleNamespace(simulated=False),
        dashboard=SimpleNamespace(view=view, error=""),
        hub=FakeHub(),
        settings=SiteSettings(
            None, Courses(data_roots=["/data/courses"], directory=str(place / "courses"))
        ),
        directory=Directory(),
        allowance=AuditRateLimit(most=100_000),
    )
    async with served(endpoints(), parts, PEOPLE.get, logins=True) as client:
        yield Site(client, parts, files)
