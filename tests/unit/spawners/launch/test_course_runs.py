"""Launches of runs of a course in the Hub: who may, with what is left, and where. The rules of
what a member may hold: tests/unit/launch/test_launch_course_run.py."""

from __future__ import annotations

import time
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import ADA, gpu_node, snapshot
from stored_courses import a_course, stored

from portal.catalog.availability import Offer
from portal.errors import InvalidRequest, NotAllowed
from portal.launch.course_space import CourseSpace
from portal.launch.kinds.kind import LaunchFacts, Place
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Reservation
from portal.models.course.course import Course, CourseMember
from portal.models.session.resources import Resources
from portal.models.space import Role
from portal.setting import SiteSettings
from portal.spaces.job_space import MINE
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store
from portal.store.migrations.work import work_and_space
from portal.work.run.kind import Run
from spawners.launch.spaces import place_in_space

RUN = {
    "id": "5e2f3c1a",
    "name": "rates",
    "source": "train.py",
    "folder": "/home/ada/runs/rates",
    "points": 8,
    "at_once": 2,
    "course": "deep",
}
LAB = Environment(name="lab", title="Lab", kind="container", image="/i/lab.sif")
TODAY = date.today()
SPENT = "The course 'Deep Learning' has used its 5 GPU-hours."


class Site:
    """The Hub's side of a launch of ada's, a student; ``spent``: why the course has no GPUs."""

    def __init__(self, store: Store) -> None:
        self.store, self.spent = store, ""
        self.spawners: dict[str, Any] = {}
        self.reservations: dict[str, Reservation] = {}
        self.shared = SimpleNamespace(
            memberships=MembershipCache(store.spaces.get, store.members.of_person, age=0.0),
            catalog=SimpleNamespace(
                load=self._loaded, offering=SimpleNamespace(offer_for=self._offer)
            ),
            budgets=SimpleNamespace(spent=self._spent),
            settings=SiteSettings(),
        )

    async def _loaded(self) -> None:
        pass

    async def _offer(self, environment: Environment) -> Offer:
        return Offer(environment)

    async def _spent(self, _: Course) -> str:
        return self.spent

    async def teach(self, **changes: Any) -> None:
        course = a_course(
            timezone="UTC", begins=TODAY - timedelta(days=2), account="dl101",
            **{"default": Resources(cpus=1), "largest": Resources(gpus=2, cpus=4), "runs": True,
               "ends": TODAY + timedelta(days=9), **changes},
        )  # fmt: skip
        ada = CourseMember(course="deep", person="ada", role=Role.STUDENT)
        await self.store.courses.add_space(stored(course, pinned=LAB), [ada])

    def beside(self, server: str, **options: Any) -> None:
        work, space = work_and_space(server, options)
        self.spawners[server] = SimpleNamespace(
            active=True, last_options=options, work=work, space=space, job_id=""
        )

    async def launched(self, **options: Any) -> Place:
        spawner: Any = SimpleNamespace(
            shared=self.shared,
            user=SimpleNamespace(name="ada", spawners=self.spawners),
            person=ADA,
            account="ada",
            name="run-5e2f3c1a",
        )
        asked = Asked.parse({"environment": "lab", "run": RUN, **options})
        assert isinstance(asked.kind, Run) and asked.kind.space != MINE
        cluster = snapshot(gpu_node("gpu01", "v100", 4))
        cluster = cluster.model_copy(update={"reservations": self.reservations})
        return await place_in_space(spawner, asked.kind, asked, LaunchFacts(cluster, None))


@pytest.fixture
async def site(store: Store) -> Site:
    return Site(store)


async def test_a_student_has_one_in_the_course_s_account(site: Site) -> None:
    await site.teach()
    place = await site.launched(gpus=1)
    assert isinstance(place.kind, Run) and place.kind.run.name == "rates"
    assert isinstance(place.kind.space, CourseSpace)
    assert (place.kind.space.role, place.kind.space.title) == (Role.STUDENT, "Deep Learning")
    environment = place.environments["lab"]
    assert (environment.default.account, environment.max_gpus) == ("dl101", 2)
    with pytest.raises(InvalidRequest, match="The course sets 'account'"):
        await site.launched(account="physics")


async def test_nobody_else_has_one(site: Site) -> None:
    await site.teach()
    await site.store.members.remove("deep", ["ada"])
    with pytest.raises(NotAllowed, match="There is no course 'deep' that you can access"):
        await site.launched()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"runs": False}, "does not allow runs"),
        ({"ends": TODAY - timedelta(days=2)}, "ended on"),
    ],
)
async def test_a_course_without_runs_or_that_is_over(site: Site, changes: Any, words: str) -> None:
    await site.teach(**changes)
    with pytest.raises(NotAllowed, match=words):
        await site.launched()


async def test_a_used_budget_leaves_points_on_cpus(site: Site) -> None:
    await site.teach(default=Resources(gpus=1, cpus=1))
    site.spent = SPENT
    for options in ({"gpus": 1}, {}):  # the course's sessions have a GPU by default
        with pytest.raises(NotAllowed, match="has used its 5 GPU-hours"):
            await site.launched(**options)
    place = await site.launched(gpus=0)
    assert place.environments["lab"].max_gpus == 0


async def test_what_the_member_holds_counts(site: Site) -> None:
    await site.teach()
    site.beside("course-deep", course="deep", gpus=1)
    with pytest.raises(NotAllowed, match=r"your session has 1\. 2 points at once need 2"):
        await site.launched(gpus=1)
    await site.launched(gpus=0, cpus=2)
    with pytest.raises(NotAllowed, match=r"4 CPUs at once\. Those of this run need 6"):
        await site.launched(cpus=3)
    site.beside("run-6e2f3c1a", gpus=0, cpus=2, run={**RUN, "id": "6e2f3c1a"})
    with pytest.raises(NotAllowed, match="your other runs have 4"):
        await site.launched(cpus=1)


async def test_during_a_meeting_it_is_in_the_reservation(site: Site) -> None:
    await site.teach()
    now = time.time()
    name = time.strftime("course-deep-%Y%m%dT%H%M", time.gmtime(now - 600))
    ends = {"start_time": now - 600, "end_time": now + 1800}
    for nodes, gpus, reservation in ((("gpu01",), 1, name), (("cpu01",), 1, None),
                                     (("cpu01",), 0, name)):  # fmt: skip
        reserved = Reservation(name=name, users=(ADA.name,), nodes=nodes, **ends)
        site.reservations = {name: reserved}
        environment = (await site.launched(gpus=gpus)).environments["lab"]
        assert environment.default.reservation == reservation
        assert environment.max_time is not None and environment.max_time <= 1800
