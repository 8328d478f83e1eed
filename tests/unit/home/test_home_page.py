"""Home as each role sees it: what stands there, and what stays there while a part is away."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusters import gpu_node, job, record, waiting
from fake_hub import FakeHub
from fake_watcher import ToldCluster, ToldTelemetry
from machine import patience
from session_endpoints import parts_on, person, said, served
from stored_courses import a_course, stored
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from portal.assembly import Services
from portal.catalog import EnvironmentCatalog
from portal.dashboard import Dashboard
from portal.errors import HubUnavailable, SlurmUnavailable, StoreUnavailable
from portal.estimates import StartEstimates
from portal.handlers.pages.rendering import Pages
from portal.home import endpoints
from portal.home.pages import HOME_PAGES
from portal.models.catalog.catalog import EnvironmentRequestDraft
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.cluster.cluster import ClusterSnapshot, Partition
from portal.models.cluster.gpu import GpuReading
from portal.models.course.course import CourseMember
from portal.models.course.live import Presence
from portal.models.home import HomePart, Place
from portal.models.scope import MEANINGS
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.session import SessionState
from portal.models.space import Role, SpaceState
from portal.store import Store
from portal.work.benchmarks.tables import BenchmarkRun, BenchmarkRunTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

PREFIX = "/services/portal/"
NOW = time.time()
RUN = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
TOKENS = {name: person(name) for name in ("ada", "new", "teacher", "student")} | {
    "grace": person("grace", *MEANINGS)
}
LAB = Environment(name="lab", title="Lab", kind=EnvironmentKind.VENV, path="/opt/lab")
TORCH = """\
name: torch
title: PyTorch
kind: venv
path: /opt/torch
starters: [first.ipynb]
"""
PLAIN = "name: plain\ntitle: Plain Python\nkind: venv\npath: /opt/plain\norder: 1\n"


def told(**more: Any) -> ClusterSnapshot:
    """Return a cluster with free V100s, no free T4, and a broken node."""
    nodes = (
        gpu_node("gpu01", "v100", 4, 1),
        gpu_node("gpu02", "t4", 2, 2),
        gpu_node("gpu03", "t4", 2, state="DOWN", reason="power supply"),
    )
    jobs = (
        job("71", held={"gpu01": (0,)}, end_time=NOW + 5430),
        waiting("72", "barbara", reason="Resources"),
    )
    partition = Partition(name="gpu", nodes=("gpu01", "gpu02", "gpu03"), default=True)
    return ClusterSnapshot(
        taken_at=time.time(),
        nodes={node.name: node for node in nodes},
        jobs={known.id: known for known in jobs},
        partitions={"gpu": partition},
        **more,
    )


class FreeCluster(ToldCluster):
    """Watcher of a cluster without accounting."""

    async def associations(self, user: str) -> None:
        return None

    def known_associations(self, user: str) -> None:
        return None


class Site:
    """Service with Home, and its database and parts."""

    def __init__(self, client: httpx.AsyncClient, url: str, parts: Services) -> None:
        self.client, self.url, self.parts, self.store = client, url, parts, parts.store

    async def html(self, who: str = "ada", query: str = "") -> str:
        answer = await self.client.get(
            f"{self.url}home{query}", headers={"Authorization": f"token {who}"}
        )
        assert answer.status_code == 200, answer.text
        return answer.text

    async def see(self, who: str = "ada", query: str = "") -> dict[str, str]:
        """Return the text of each part, white space folded, by its name."""
        html = await self.html(who, query)
        parts = re.findall(r'(?s)<section class="part" id="home-(.*?)".*?>(.*?)</section>', html)
        return {
            name: re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", text)).strip() for name, text in parts
        }

    async def launch(self, environment: str, who: str = "ada") -> httpx.Response:
        headers = {"Authorization": f"token {who}"}
        return await self.client.post(f"environments/{environment}/launch", headers=headers)


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """NOW is when the test begins, not when its module was imported."""
    monkeypatch.setitem(globals(), "NOW", time.time())


@pytest.fixture
async def site(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    monkeypatch.setattr("portal.home.pages._PATIENCE", patience(10))
    files = tmp_path / "environments"
    files.mkdir()
    (files / "torch.yaml").write_text(TORCH)
    (files / "plain.yaml").write_text(PLAIN)
    cluster, telemetry = FreeCluster(told()), ToldTelemetry()
    dashboard = Dashboard(cluster=cluster, telemetry=telemetry, store=store)
    catalog = EnvironmentCatalog(directory=str(files), offer_untested=True)
    parts = parts_on(
        store,
        cluster=cluster,
        telemetry=telemetry,
        dashboard=dashboard,
        catalog=catalog,
        hub=FakeHub(running={}),
        estimates=StartEstimates(store=store, ask_slurm=False),
    )
    async with served(endpoints.ENDPOINTS, parts, TOKENS.get, logins=True) as client:
        web = Application(
            [(PREFIX + address, page) for address, page in HOME_PAGES],
            parts=parts,
            log=parts.log,
            pages=Pages(prefix=PREFIX, hub_prefix="/hub/"),
            log_function=lambda _: None,
            cookie_secret="x" * 32,
        )
        listening, port = bind_unused_port()
        server = HTTPServer(web)
        server.add_socket(listening)
        yield Site(client, f"http://127.0.0.1:{port}{PREFIX}", parts)
        server.stop()


async def filled(site: Site) -> None:
    """Let ada have a session that runs, two that have ended, and a job kernel."""
    running = record(
        "s1", "71", environment="torch", environment_title="PyTorch", nodes=("gpu01",),
        options={"gpus": 1, "gpu_type": "v100", "time": "2:00:00"}, submitted_at=NOW - 900,
        started_at=NOW - 800, ready_at=NOW - 790,
    )  # fmt: skip
    ended = running.model_copy(
        update={
            "id": "s0", "job_id": "70", "state": SessionState.ENDED, "ended_at": NOW - 600,
            "submitted_at": NOW - 7000, "ending_code": "out_of_memory",
            "ending_message": "The session used more memory than it had.",
        }
    )  # fmt: skip
    old = ended.model_copy(update={"id": "old", "ended_at": NOW - 3 * 86_400})
    kernel = ended.model_copy(update={"id": "k", "server": "kernel-1", "work": "kernel"})
    await site.store.sessions.save(running, ended, old, kernel)
    await site.parts.dashboard.refreshed()


async def test_a_user_sees_what_runs_what_ended_and_why(site: Site) -> None:
    await filled(site)
    parts = await site.see()
    assert "PyTorch" in parts["now"]
    assert "Running" in parts["now"]
    assert re.search(r"1 h [0-9]+ min left", parts["now"])
    assert "1 \N{MULTIPLICATION SIGN} v100, 2 h" in parts["now"]
    assert parts["ended"].count("PyTorch") == 1  # not the kernel, nor what ended long ago
    assert "The session used more memory than it had." in parts["ended"]
    html = await site.html()
    assert 'href="/user/ada/"' in html
    waits = record("s2", "72", server="big", state=SessionState.PENDING, submitted_at=NOW)
    await site.store.sessions.save(waits)
    html = await site.html()
    assert 'href="/hub/spawn-pending/ada/big"' in html
    assert len(re.findall('class="btn btn-jupyter', html)) == 1  # one main action
    assert "<svg" not in html.partition('id="home-now"')[2].partition("</section>")[0]


async def test_the_gpus_of_a_session_are_shown_over_time_and_now(site: Site) -> None:
    await filled(site)
    dashboard = site.parts.dashboard
    for at, use in ((NOW, 40.0), (NOW + 60, 60.0), (NOW + 120, None)):
        reading = GpuReading(node="gpu01", index=0, utilization=use, source="dcgm", at=at)
        dashboard.job_uses.take(dashboard.view, {("gpu01", 0): reading}, {}, at)
    now = (await site.html()).partition('id="home-now"')[2].partition("</section>")[0]
    assert 'points="0,60 1,40 "' in now and "% GPU" not in now  # not known at this moment
    dashboard.telemetry.told = (reading.model_copy(update={"utilization": 80.0}),)
    await dashboard.refreshed()
    assert "80 % GPU" in (await site.see())["now"]


async def test_gpus_are_free_or_have_a_wait(site: Site) -> None:
    site.parts.gpu_titles = {"v100": "Tesla V100"}
    await site.parts.dashboard.refreshed()
    html = await site.html()
    rows = dict(re.findall(r'data-type="(\w+)" data-outlook="(\w+)"', html))
    assert rows == {"v100": "unknown", "t4": "unknown"}  # a job waits for its turn
    parts = await site.see()
    assert "Tesla V100 3 of 4 free" in parts["gpus"]
    assert "t4 0 of 4 free" in parts["gpus"]
    assert "/hub/spawn?opt-gpus=1&amp;opt-gpu_type=v100" in html
    site.parts.dashboard.cluster.told = told().model_copy(update={"jobs": {}})  # type: ignore[attr-defined]
    await site.parts.dashboard.refreshed()
    html = await site.html()
    assert dict(re.findall(r'data-type="(\w+)" data-outlook="(\w+)"', html))["v100"] == "now"
    assert "starts now" in (await site.see())["gpus"]


async def test_a_newcomer_sees_three_steps_and_a_starter(site: Site) -> None:
    await site.parts.dashboard.refreshed()
    parts = await site.see("new")
    assert parts["now"].startswith("Start in three steps")
    assert "PyTorch suits a first session" in parts["now"]  # Plain Python has no starter
    assert "first.ipynb" in parts["now"]
    assert parts.keys() == {"now", "gpus"}
    html = await site.html("new")
    assert 'href="/hub/spawn?opt-environment=torch"' in html
    await filled(site)
    assert "three steps" not in (await site.see())["now"]


async def test_a_favourite_is_launched_with_one_click(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(site)
    await site.store.favourites.set("ada", "plain", NOW)
    in_course = record(
        "c", "", environment="torch", server="course-deep", space="deep", submitted_at=NOW - 60,
        options={"gpus": 4}, state=SessionState.ENDED, ended_at=NOW - 50,
    )  # fmt: skip
    await site.store.sessions.save(in_course)
    parts = await site.see()
    assert parts["launches"].index("Plain Python") < parts["launches"].index("PyTorch")
    assert "1 \N{MULTIPLICATION SIGN} v100, 2 h" in parts["launches"]
    assert "Launch Plain" not in parts["launches"]  # the default session runs
    hub = site.parts.hub
    refused = await site.launch("torch")
    assert refused.status_code == 403  # a program with a token
    monkeypatch.setattr(endpoints, "is_click", lambda handler: True)
    assert (await site.launch("torch")).status_code == 202
    assert hub.begun == [  # type: ignore[attr-defined]
        ("ada", "", {"environment": "torch", "gpus": 1, "gpu_type": "v100", "time": "2:00:00"})
    ]
    again = await site.launch("torch")
    assert (again.status_code, said(again)) == (
        409, "Your session is already running or starting.",
    )  # fmt: skip
    assert (await site.launch("none")).status_code == 404
    assert (await site.launch("plain", "new")).status_code == 202
    assert hub.begun[-1] == ("new", "", {"environment": "plain"})  # type: ignore[attr-defined]
    lines, _ = await site.store.audit.find(actor="ada")
    outcomes = [(line.action, line.outcome) for line in lines if line.action == "start-session"]
    assert sorted(outcomes) == [
        ("start-session", outcome) for outcome in ("done", "failed", "refused")
    ]


async def test_runs_have_their_best_metric(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.parts.dashboard.refreshed()
    run = Run(
        user="ada", id=RUN, server="run-5e2f", name="sweep", environment="torch",
        source="/a.py", folder="/f", points=8, at_once=1, created_at=NOW - 60,
    )  # fmt: skip
    await site.store.table(RunTable).add_run(run)
    values = {"loss": 0.5, "accuracy": 0.9}, {"loss": 0.25, "accuracy": 0.8}
    for number, metrics in enumerate(values):
        point = RunPoint(number=number, state=PointState.SUCCEEDED, metrics=metrics)
        await site.store.table(RunPointTable).save([(("ada", RUN), point)])
    bests, read = site.store.table(RunPointTable).bests, []

    async def counted(*args: Any) -> Any:
        read.append(args)
        return await bests(*args)

    monkeypatch.setattr(site.store.table(RunPointTable), "bests", counted)
    parts = await site.see()
    assert "sweep running 2 of 8 points have ended" in parts["runs"]
    assert "accuracy 0.9 point 0" in parts["runs"]
    await site.store.table(RunTable).end("ada", RUN, NOW)
    assert "sweep ended" in (await site.see())["runs"]
    assert read == [
        ("ada", {RUN: ("accuracy", False)})
    ]  # all points of a run, at most once a minute
    assert "runs" not in await site.see("new")


async def course_of(site: Site, state: SpaceState = SpaceState.APPROVED) -> None:
    """Store a course that meets for all of today, with a teacher and a student who waits."""
    today = date.today()
    course = a_course(
        name="deep",
        begins=str(today - timedelta(days=2)),
        ends=str(today + timedelta(days=9)),
        timezone="UTC",
        single=[
            {"date": str(today + timedelta(days=day)), "begins": "00:00", "minutes": 1439}
            for day in (0, 1)
        ],
    )
    members = [
        CourseMember(course="deep", person=name, role=role, added_by="grace")
        for name, role in (("teacher", Role.INSTRUCTOR), ("student", Role.STUDENT))
    ]
    await site.store.courses.add_space(stored(course, state=state, pinned=LAB), members)
    site.parts.memberships.forget()


async def test_an_instructor_sees_todays_meetings_and_who_waits(site: Site) -> None:
    await course_of(site)
    seat = record("c1", "80", "student", server="course-deep", options={"course": "deep"})
    await site.store.sessions.save(seat)
    site.parts.dashboard.cluster.told = told().model_copy(  # type: ignore[attr-defined]
        update={"jobs": {"80": job("80", "student")}}
    )
    await site.parts.dashboard.refreshed()
    parts = await site.see("teacher")
    assert "Deep Learning" in parts["today"]
    assert "00:00\N{EN DASH}23:59" in parts["today"]
    assert "help" not in parts["today"]
    for session in ("c1", "gone"):  # one of a session that has ended waits no longer
        hand = Presence(
            course="deep", person="student" if session == "c1" else "other",
            session_id=session, seen_at=NOW, hand="help", hand_at=NOW,
        )  # fmt: skip
        await site.store.presence.raise_hand(hand)
    parts = await site.see("teacher")
    assert "1 waits for help student" in parts["today"]
    assert "other" not in parts["today"]
    student = await site.see("student")
    assert "today" not in student
    assert "Deep Learning The meeting runs until" in student["classes"]
    html = await site.html("student")
    assert 'data-post="courses/deep/open"' not in html  # it runs
    assert 'data-post="courses/deep/open"' in await site.html("teacher")


async def test_an_admin_sees_what_needs_a_hand(site: Site) -> None:
    await site.parts.dashboard.refreshed()
    for part in ("tasks", "queue", "health"):
        assert part not in await site.see()
    store = site.store
    draft = EnvironmentRequestDraft(source="docker://x", text="please")
    await store.environment_requests.add_request(draft, "ada", NOW)
    build = await store.builds.add_build(
        key="k", source="docker://broken", digest="", asker="grace", nonce="n", log="/l", at=NOW
    )
    failed = {"state": "failed", "message": "No space.", "ended_at": NOW}
    await store.builds.change(build.id, **failed)
    await course_of(site, SpaceState.REQUESTED)
    parts = await site.see("grace")
    assert "1 open request" in parts["tasks"]
    assert "Build of docker://broken failed No space." in parts["tasks"]
    assert "gpu03 down" in parts["tasks"]
    assert "power supply" in parts["tasks"]
    assert "Deep Learning requested" in parts["course-requests"]
    assert "1 job runs, 1 waits" in parts["queue"]
    assert "Slurm Works" in parts["health"]
    again = {"key": "k", "source": "docker://broken", "digest": "", "asker": "grace"}
    await store.builds.add_build(**again, nonce="m", log="/m", at=NOW)
    assert "docker://broken" not in (await site.see("grace"))["tasks"]


async def test_an_admin_sees_which_benchmarks_fell_until_they_rise(site: Site) -> None:
    """Whoever added them: the mail goes to that user alone."""
    table, day = site.store.table(BenchmarkRunTable), 86_400.0

    async def take(run: str, ago: float, *falls: str, **more: Any) -> None:
        values = {"name": f"<b>{run}</b>", "environment": "a&b", "version": 2, "added_at": NOW}
        added = BenchmarkRun(user="hedy", run=run, falls=falls, **{**values, **more})
        await table.add_run(added.model_copy(update={"taken_at": NOW - ago * day}))

    assert "benchmarks" not in await site.see("grace")
    await take("first", 3)
    await take("old", 20, "training: 20% worse.")
    assert "benchmarks" not in await site.see("grace")
    await take("second", 2, "training: 12% worse.", "inference: 10% worse.", origin="first")
    await take("third", 1, origin="first", problem="Its jobs are unknown.")  # has no results
    await take("other", 1, "reads: 11% worse.", version=0, environment="lab", problem="Refused.")
    parts = await site.see("grace")
    assert parts["benchmarks"] == (
        "Benchmarks that fell lab worse 1 result of &#39;&lt;b&gt;other&lt;/b&gt;&#39; fell by "
        "10% or more. reads: 11% worse. a&amp;b, version 2 worse 2 results of "
        "&#39;&lt;b&gt;second&lt;/b&gt;&#39; fell by 10% or more. training: 12% worse."
    )
    assert 'href="/services/portal/benchmarks?environment=a%26b"' in await site.html("grace")
    assert "benchmarks" not in await site.see("ada")
    await take("fourth", 0, origin="first")
    assert "second" not in (await site.see("grace"))["benchmarks"]


async def test_home_shows_while_slurm_and_the_database_are_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = await site.see()
    assert "Slurm has not answered yet." in parts["gpus"]
    await filled(site)
    site.parts.dashboard.cluster.told = told(error="slurmctld does not answer.")  # type: ignore[attr-defined]
    await site.parts.dashboard.refreshed()
    parts = await site.see()
    assert "slurmctld does not answer. The numbers are from" in parts["gpus"]
    assert "PyTorch" in parts["now"]
    assert "Slurm slurmctld does not answer. Does not work" in (await site.see("grace"))["health"]

    async def away(*args: Any, **values: Any) -> Any:
        raise StoreUnavailable("The database does not answer.")

    monkeypatch.setattr(site.store.database, "run", away)
    parts = await site.see()
    assert "PyTorch" in parts["now"]  # from the dashboard's memory
    assert parts["ended"].endswith("The database does not answer.")
    assert "3 of 4 free" in parts["gpus"]


async def test_a_part_that_hangs_holds_up_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(site)

    async def hangs(*args: Any, **values: Any) -> Any:
        await asyncio.sleep(3600)

    monkeypatch.setattr("portal.home.pages._PATIENCE", 0.5)
    monkeypatch.setattr(site.parts.cluster, "associations", hangs)
    monkeypatch.setattr(site.store.favourites, "of_user", hangs)
    await site.html()
    began = time.monotonic()
    html = await site.html()
    assert time.monotonic() - began < patience(5)
    late = re.search(r'(?s)id="home-launches".*?</section>', html)
    assert late
    assert "aria-busy" in late[0]
    assert "3 of 4 free" in (await site.see())["gpus"]
    monkeypatch.setattr("portal.home.pages._UPDATE", 0.5)
    assert "<html" not in await site.html(query="?update=1")
    parts = await site.see(query="?update=1")
    assert "does not answer now" in parts["launches"]


@pytest.mark.parametrize("error", [HubUnavailable("Away."), SlurmUnavailable("Away.")])
async def test_a_launch_that_fails_says_why(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(endpoints, "is_click", lambda handler: True)
    site.parts.hub.refusal = error  # type: ignore[attr-defined]
    answer = await site.launch("torch")
    assert (answer.status_code, said(answer)) == (503, "Away.")


async def test_a_feature_adds_a_part(site: Site) -> None:
    class More:
        def home_parts(self, who: Any, since: Any) -> Any:
            async def load() -> dict[str, Any]:
                return {"tasks": [], "none": f"Nothing for {who.name}."}

            yield HomePart("more", "More", Place.NEXT, "home_tasks.html", load)

    site.parts.of_features[More] = More()
    assert (await site.see())["more"] == "More Nothing for ada."


async def test_a_long_history_costs_no_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted as the database returns them."""
    await filled(site)
    read: list[int] = []
    made = type(site.store.sessions)._made

    def counted(table: Any, row: Any) -> Any:
        read.append(1)
        return made(table, row)

    monkeypatch.setattr(type(site.store.sessions), "_made", counted)
    old = record(
        "s", "1", environment="torch", submitted_at=NOW - 9000, started_at=NOW - 8990,
        state=SessionState.ENDED, ending_code="stopped", ended_at=NOW - 5000,
    )  # fmt: skip
    history = [
        old.model_copy(update={"id": f"s-{n}", "submitted_at": NOW - 9000 - n}) for n in range(1000)
    ]
    await site.store.sessions.save(*history)
    parts = await site.see()
    assert parts["ended"].count("PyTorch") + parts["ended"].count("torch") == 5
    assert "All ended sessions" in parts["ended"]
    assert len(read) < 100
