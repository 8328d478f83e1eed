"""Runs of a project: who sees them and who may do what, with a real database; and runs that are
shared with a project or a group of the Hub."""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from session_endpoints import of_server, person
from test_projects_api import PEOPLE, PROTEINS, Site, running

from portal.models.cluster.cluster import Association, Partition
from portal.models.session.estimate import Outlook, StartAnswer
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.run_logged import Logged
from portal.projects.tables import ProjectTable
from portal.work.run.tables.logged import RunLoggedTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.shares import RunShareTable, Viewer

NOW = 1.7e9
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(20)
IDS = {name: f"{number}e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162" for number, name in enumerate("POSGUM")}
# By run: of the project, olga's own, shared with the project, with a group, with a user; mike's.
SEE = {
    "P": {"olga", "mike", "rita"},
    "O": {"olga"},
    "S": {"olga", "mike", "rita"},
    "G": {"olga", "gina"},
    "U": {"olga", "ned"},
    "M": {"olga", "mike", "rita"},
}
EVERYBODY = ("olga", "mike", "rita", "gina", "ned", "eve", "grace")
MORE = {
    "olga": {**person("olga"), "groups": ["physics", "a, b/c"]},
    "gina": {**person("gina"), "groups": ["physics"]},
    "ned": person("ned"),
    "in-session": of_server("rita", "work"),
    **{f"{name}-working": of_server(name, "work") for name in ("mike", "rita", "eve")},
    "in-course": of_server("rita", "course-deep"),
}
READ = (
    "", "/points", "/points/0", "/points.csv", "/values", "/curves?curve=loss", "/use",
    "/points/0/use", "/points/0/logged", "/points/0/images/plot",
)  # fmt: skip
# What only the user of a run may: method, path, body.
OWN: tuple[tuple[str, str, Any], ...] = (
    ("DELETE", "", None),
    ("DELETE", "/record", None),
    ("POST", "/again", {}),
    ("GET", "/points/0/output", None),
    ("POST", "/points/0/kernel", {"code": "1"}),
    ("DELETE", "/points/0/kernel", None),
    ("POST", "/tensorboard", None),
    ("GET", "/shares", None),
    ("POST", "/shares", {"user": "eve"}),
    ("POST", "/shares", {"project": "proteins"}),
    ("DELETE", "/shares/ned", None),
    ("DELETE", "/shares?project=proteins", None),
)


def run_of(name: str, user: str = "olga", **more: Any) -> Run:
    values = {
        "id": IDS[name], "name": f"run-{name.lower()}", "source": "train.py", "points": 2,
        "folder": f"/home/{user}/runs/{name}", "code_digest": f"sha256:{'a' * 64}", "user": user,
        "server": f"run-{name}", "environment": "lab", "created_at": NOW + "POSGUM".index(name),
        "ended_at": NOW + 90.0, "resources": {"gpus": 1, "account": "secret"}, **more,
    }  # fmt: skip
    return Run.model_validate(values)


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    for name, model in MORE.items():
        monkeypatch.setitem(PEOPLE, name, model)
    async with running(tmp_path) as site:

        async def refreshed(_: bool = True) -> None:
            pass

        site.parts.dashboard.refreshed = refreshed  # type: ignore[assignment,method-assign]
        await site.approved(environments=["lab"])
        store = site.parts.store
        for run in (
            run_of("P", project="proteins"), run_of("O"), run_of("S"), run_of("G"), run_of("U"),
            run_of("M", "mike", project="proteins"),
        ):  # fmt: skip
            await store.table(RunTable).add_run(run)
            key = (run.user, run.id)
            loss = 0.5 if run.user == "olga" else 0.25
            points = [
                RunPoint(
                    number=n, state=PointState.SUCCEEDED, attempt=1, metrics={"loss": loss + n}
                )
                for n in range(2)
            ]
            await store.table(RunPointTable).save([(key, point) for point in points])
        shares = {"S": {"project": "proteins"}, "G": {"group": "physics"}, "U": {"user": "ned"}}
        for name, body in shares.items():
            await site.done("olga", "POST", f"runs/{IDS[name]}/shares", body)
        yield site


def seen_by(who: str) -> set[str]:
    return {name for name, people in SEE.items() if who in people}


def path_of(name: str, rest: str = "", owner: str | None = None) -> str:
    path = f"runs/{IDS[name]}{rest}"
    owner = owner or ("mike" if name == "M" else "olga")
    return f"{path}{'&' if '?' in path else '?'}owner={owner}"


async def test_who_reads_what(site: Site) -> None:
    """Expected against got, for each role and each route of a run."""
    logged = site.parts.store.table(RunLoggedTable)
    images = {"plot": base64.b64encode(PICTURE).decode()}
    deviations = []
    for name, people in SEE.items():
        owner = "mike" if name == "M" else "olga"
        await logged.save((owner, IDS[name]), 0, 1, Logged.model_validate({"images": images}))
        for who in EVERYBODY:
            for rest in READ:
                answer = await site.ask(who, "GET", path_of(name, rest))
                expected = 200 if who in people else 404
                if answer.status_code != expected:
                    deviations.append((name, who, rest, answer.status_code, answer.text[:200]))
                elif expected == 404:
                    assert answer.json()["error"]["message"] == "You have no such run."
                elif who != owner:
                    assert "secret" not in answer.text, "the user's accounts are theirs"
    assert deviations == []


async def test_nobody_else_changes_anything(site: Site) -> None:
    before = [await _rows(site, name) for name in "POSGU"]
    for name, who in itertools.product("POSGU", EVERYBODY[1:]):
        for method, rest, body in OWN:
            answer = await site.ask(who, method, f"runs/{IDS[name]}{rest}", body)
            assert answer.status_code == 404, (name, who, method, rest, answer.text)
    assert [await _rows(site, name) for name in "POSGU"] == before
    assert site.hub.granted == []


async def _rows(site: Site, name: str) -> Any:
    store = site.parts.store
    shares = store.table(RunShareTable)
    key = ("olga", IDS[name])
    return await store.table(RunTable).get(*key), await shares.users(*key), await shares.teams(*key)


async def test_lists_have_what_one_sees(site: Site) -> None:
    for who in EVERYBODY:
        await _check_lists(site, who)


async def _check_lists(site: Site, who: str) -> None:
    names = {id_: name for name, id_ in IDS.items()}
    shared = await site.done(who, "GET", "shared-runs")
    own = await site.done(who, "GET", "runs")
    assert not {run["id"] for run in shared["items"]} & {run["id"] for run in own["items"]}
    found = {names[run["id"]] for run in (*shared["items"], *own["items"])}
    assert found == seen_by(who) and shared["total"] == len(shared["items"])
    answer = await site.ask(who, "GET", "projects/proteins/runs")
    if who in ("olga", "mike", "rita"):
        page = answer.json()
        assert [names[run["id"]] for run in page["items"]] == ["M", "S", "P"], "newest first"
        assert (page["total"], page["users"]) == (3, ["mike", "olga"])
    else:
        assert answer.status_code == 403, "an admin who is not in the project sees none of its runs"


async def test_the_list_of_a_project(site: Site) -> None:
    path = "projects/proteins/runs"
    page = await site.done("rita", "GET", f"{path}?limit=2")
    assert [run["user"] for run in page["items"]] == ["mike", "olga"] and page["total"] == 3
    best = {"run": IDS["M"], "metric": "loss", "lowest": True, "point": 0, "value": 0.25}
    assert page["items"][0]["best"] == {**best, "curve": []}
    assert page["items"][1]["best"]["value"] == 0.5
    rest = await site.done("rita", "GET", f"{path}?limit=2&after={page['next']}")
    assert [run["id"] for run in rest["items"]] == [IDS["P"]] and rest["next"] is None
    (of_mike,) = (await site.done("rita", "GET", f"{path}?user=mike"))["items"]
    assert of_mike["id"] == IDS["M"] and "account" not in of_mike["resources"]
    assert (await site.done("rita", "GET", f"{path}?state=living"))["total"] == 0
    living = run_of("O").model_copy(update={"id": "9e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162",
                                            "project": "proteins", "ended_at": None})  # fmt: skip
    await site.parts.store.table(RunTable).add_run(living)
    (new,) = (await site.done("rita", "GET", f"{path}?state=living"))["items"]
    assert (new["id"], new["state"], new["best"]) == (living.id, "waiting", None)
    for query in ("state=some", "limit=51", "user=" + "u" * 256, "after=x", "page=2"):
        await site.refused(400, "rita", "GET", f"{path}?{query}")


async def test_runs_are_compared_across_members(site: Site) -> None:
    query = f"run-comparison?a=mike/{IDS['M']}&b=olga/{IDS['P']}"
    found = await site.done("rita", "GET", query)
    assert [run["user"] for run in found["runs"]] == ["mike", "olga"]
    assert [best["value"] for best in found["metrics"][0]["lowest"]] == [0.25, 0.5]
    for who in ("gina", "eve", "grace"):
        assert await site.refused(404, who, "GET", query) == "You have no such run."
    # One of them that is not seen is refused as if it did not exist.
    hidden = f"run-comparison?a=mike/{IDS['M']}&b=olga/{IDS['O']}"
    assert await site.refused(404, "rita", "GET", hidden) == "You have no such run."


async def test_a_session_sees_what_its_user_does(site: Site) -> None:
    assert (await site.done("in-session", "GET", path_of("P")))["mine"] is False
    # Others are let into the session of a course.
    await site.refused(404, "in-course", "GET", path_of("P"))


async def test_who_leaves_sees_none(site: Site) -> None:
    assert (await site.done("mike", "GET", path_of("P")))["name"] == "run-p"
    await site.done("mike", "POST", "projects/proteins/leave")
    for name in "PS":
        for rest in READ:
            assert (await site.ask("mike", "GET", path_of(name, rest))).status_code == 404
    assert (await site.done("mike", "GET", "shared-runs"))["total"] == 0
    assert (await site.ask("mike", "GET", "projects/proteins/runs")).status_code == 403
    assert (await site.done("mike", "GET", f"runs/{IDS['M']}"))["mine"], "his own stays his"
    assert (await site.done("rita", "GET", path_of("M")))["user"] == "mike", "and the project's"
    # Who is added sees all of them at once.
    await site.done(
        "olga", "POST", "projects/proteins/members", {"people": ["eve"], "role": "reader"}
    )
    assert (await site.done("eve", "GET", path_of("M")))["name"] == "run-m"


async def test_the_database_decides_and_not_a_copy(site: Site) -> None:
    """Another process takes the member out: the answer is at most some seconds old."""
    memberships = site.parts.memberships
    assert (await site.ask("mike", "GET", path_of("P"))).status_code == 200
    memberships.age = 0.0
    await site.parts.store.table(ProjectTable).members.remove("proteins", ["mike"])
    until = time.monotonic() + 5
    while (await site.ask("mike", "GET", path_of("P"))).status_code != 404:
        assert time.monotonic() < until
    await memberships.of_user("mike")


async def test_a_member_repeats_it_for_the_project(site: Site) -> None:
    path = path_of("P", "/repetitions")
    assert (await site.done("mike", "GET", path))["author"] == "olga"
    answer = await site.ask("mike", "POST", path)
    assert answer.status_code == 202, answer.text
    ((user, _, options),) = site.hub.begun
    assert (user, options["run"]["project"]) == ("mike", "proteins")
    assert "account" not in options, "that of the project is set by the launch"
    new = await site.parts.store.table(RunTable).get("mike", answer.json()["id"])
    assert new is not None and (new.project, new.user) == ("proteins", "mike")
    assert (await site.done("rita", "GET", f"runs/{new.id}?owner=mike"))["project"] == "proteins"


async def test_who_cannot_repeat_it(site: Site) -> None:
    await site.done("olga", "POST", f"runs/{IDS['P']}/shares", {"user": "ned"})
    words = {
        "rita": "This run is for the project 'proteins', in which you are a reader, so you cannot "
        "repeat it. Ask an owner of the project to make you a member.",
        "ned": "This run is for the project 'proteins', in which you are not, so you cannot repeat "
        "it. Start a new run of your own.",
    }
    for who, sentence in words.items():
        for method in ("GET", "POST"):
            assert await site.refused(403, who, method, path_of("P", "/repetitions")) == sentence
    # After leaving, one's own run for the project is refused, too.
    await site.done("mike", "POST", "projects/proteins/leave")
    for method in ("GET", "POST"):
        said = await site.refused(403, "mike", method, f"runs/{IDS['M']}/repetitions")
        assert said == words["ned"]
    assert site.hub.begun == []


async def test_shares_with_projects_and_groups(site: Site) -> None:
    path = f"runs/{IDS['O']}/shares"
    told = await site.done("olga", "GET", path)
    assert told == {
        "users": [], "projects": [], "groups": [], "project": "",
        "my_projects": ["proteins"], "my_groups": ["a, b/c", "physics"],
    }  # fmt: skip
    for body in ({"project": "proteins"}, {"group": "physics"}, {"group": "a, b/c"}):
        await site.done("olga", "POST", path, body)
        await site.done("olga", "POST", path, body)  # again: nothing changes
    told = await site.done("olga", "GET", path)
    assert (told["projects"], told["groups"]) == (["proteins"], ["a, b/c", "physics"])
    for who in ("mike", "rita", "gina"):
        assert (await site.done(who, "GET", path_of("O")))["name"] == "run-o"
    done = [entry for entry in await site.audit() if entry[2] == f"run {IDS['O']}"]
    assert [entry[1] for entry in done] == ["share-run"] * 6
    await site.done("olga", "DELETE", f"{path}?project=proteins")
    await site.done("olga", "DELETE", f"{path}?group=a%2C%20b%2Fc")
    await site.refused(404, "mike", "GET", path_of("O"))
    assert (await site.done("gina", "GET", path_of("O")))["user"] == "olga"
    said = await site.refused(404, "olga", "DELETE", f"{path}?project=proteins")
    assert said == "This run is not shared with the project 'proteins'."
    # Members of a group are asked for at each request.
    PEOPLE["gina"] = person("gina")
    assert ("unshare-run", f"run {IDS['O']}", "done") in [entry[1:] for entry in await site.audit()]
    # The shares go with the run.
    await site.done("olga", "DELETE", f"runs/{IDS['O']}/record")
    assert await site.parts.store.table(RunShareTable).teams("olga", IDS["O"]) == []


WRONG: tuple[tuple[Any, str], ...] = (
    ({"group": "chemistry"}, "You are not in a group 'chemistry'."),
    ({"group": "PHYSICS"}, "You are not in a group 'PHYSICS'."),
    ({"group": "physics "}, "You are not in a group 'physics '."),
    ({"group": "'; DROP TABLE runs; --"}, "You are not in a group"),
    ({"group": "<img src=x>"}, "You are not in a group '<img src=x>'."),
    ({"group": ""}, "group"),
    ({"group": "a\nb"}, "group"),
    ({"group": "\u202ephysics"}, "U+202E"),
    ({"group": "x" * 256}, "group"),
    ({"group": ["physics"]}, "group"),
    ({"project": "others"}, "You are not in a project 'others'."),
    ({"project": "../proteins"}, "project"),
    ({"project": "Proteins"}, "project"),
    ({"project": "proteins", "group": "physics"}, "exactly one of"),
    ({"project": "proteins", "user": "ned"}, "exactly one of"),
    ({}, "exactly one of"),
    ({"team": "physics"}, "team"),
)


async def test_with_whom_a_run_is_not_shared(site: Site) -> None:
    path = f"runs/{IDS['O']}/shares"
    for body, words in WRONG:
        assert words in await site.refused(400, "olga", "POST", path, body), body
    told = await site.done("olga", "GET", path)
    assert (told["users"], told["projects"], told["groups"]) == ([], [], [])


async def test_a_project_s_run_needs_no_share_with_it(site: Site) -> None:
    body = {"project": "proteins"}
    said = await site.refused(400, "olga", "POST", f"runs/{IDS['P']}/shares", body)
    assert said == "This run is for the project 'proteins', so its members see it already."
    assert (await site.done("olga", "GET", f"runs/{IDS['P']}/shares"))["project"] == "proteins"


async def test_a_project_of_others_is_as_one_that_does_not_exist(site: Site) -> None:
    body = {"project": PROTEINS | {"name": "other", "account": None}, "members": []}
    await site.done("grace", "POST", "projects", body)
    for name in ("other", "nothing"):
        said = await site.refused(400, "olga", "POST", f"runs/{IDS['O']}/shares", {"project": name})
        assert said.startswith(f"You are not in a project '{name}'.")


async def test_many_shares_end_at_a_limit(site: Site) -> None:
    table = site.parts.store.table(RunShareTable)
    for number in range(50):
        await table.share_with("olga", IDS["O"], "group", f"g{number}")
    path = f"runs/{IDS['O']}/shares"
    said = await site.refused(400, "olga", "POST", path, {"group": "physics"})
    assert said == "A run can be shared with at most 50 projects and groups."


async def test_no_name_stands_for_another_kind(site: Site) -> None:
    """A group that is called as a project, and the other way round, lets nobody in."""
    table = site.parts.store.table(RunShareTable)
    await table.share_with("olga", IDS["O"], "group", "proteins")
    assert await table.get(Viewer("mike", ["proteins"]), "olga", IDS["O"]) is None
    assert await table.get(Viewer("mike", [], ["proteins"]), "olga", IDS["O"]) is not None
    for viewer in (Viewer("olga"), Viewer(""), Viewer("eve", [""], [""]), Viewer("proteins")):
        assert await table.get(viewer, "olga", IDS["O"]) is None
        assert await table.with_user(viewer) == ([], 0)


# -- run for a project -----------------------------------------------------------------------------

NEW: dict[str, Any] = {
    "id": "9e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162",
    "name": "new",
    "source": "train.py",
    "folder": "/home/mike/runs/new",
    "points": 1,
    "environment": "lab",
}


@pytest.fixture
async def at_work(site: Site) -> Site:
    """The same, in which mike, rita and eve have sessions of their own."""
    for who in ("mike", "rita", "eve"):
        options = {"account": "theirs"}
        await site.session(who, space="", job_id="7", environment="lab", options=options)
    return site


async def test_a_run_of_one_s_own_session_is_for_the_project(at_work: Site) -> None:
    await at_work.done("mike-working", "POST", "session/runs", NEW | {"project": "proteins"})
    ((user, _, options),) = at_work.hub.begun
    assert (user, options["run"]["project"]) == ("mike", "proteins")
    assert "account" not in options, "the project sets it"
    run = await at_work.parts.store.table(RunTable).get("mike", NEW["id"])
    assert run is not None and run.project == "proteins"
    # It is seen from the moment that it is submitted.
    seen = await at_work.done("rita", "GET", f"runs/{NEW['id']}?owner=mike")
    assert (seen["state"], seen["project"]) == ("waiting", "proteins")
    # Without a choice, it is one's own, as before.
    own = NEW | {"id": "8e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162", "name": "own"}
    await at_work.done("mike-working", "POST", "session/runs", own)
    assert at_work.hub.begun[1][2]["account"] == "theirs"
    assert "project" not in at_work.hub.begun[1][2]["run"]
    await at_work.refused(404, "rita", "GET", f"runs/{own['id']}?owner=mike")


async def test_a_run_for_another_project_is_refused_in_words(at_work: Site) -> None:
    body = {"project": "proteins"}
    said = await at_work.refused(403, "eve-working", "POST", "session/runs", NEW | body)
    assert said == "There is no project 'proteins' that you can access."
    said = await at_work.refused(
        403, "mike-working", "POST", "session/runs", NEW | {"project": "nothing"}
    )
    assert said == "There is no project 'nothing' that you can access."
    for name in ("Proteins", "../x", "a b", "x" * 300, ["proteins"]):
        await at_work.refused(400, "mike-working", "POST", "session/runs", NEW | {"project": name})
    # A session of a project starts none for another one.
    await at_work.session("mike", job_id="7", environment="lab")
    said = await at_work.refused(
        403, "mike-working", "POST", "session/runs", NEW | {"project": "other"}
    )
    assert said.startswith("This session is for 'proteins', and so are its runs.")
    assert at_work.hub.begun == []
    await at_work.done("mike-working", "POST", "session/runs", NEW)
    assert at_work.hub.begun[0][2]["run"]["project"] == "proteins", "as ever"


async def test_the_form_offers_the_projects_one_works_for(at_work: Site) -> None:
    (project,) = (await at_work.done("mike", "GET", "run-form"))["projects"]
    assert (project["name"], project["title"]) == ("proteins", "Proteins")
    assert project["environments"] == ["lab"]
    assert {"gpus", "cpus", "memory", "partition"} <= {*project["fields"]}
    assert not {"account", "reservation", "nodes"} & {*project["fields"]}
    for who in ("rita", "eve", "grace"):
        assert (await at_work.done(who, "GET", "run-form"))["projects"] == []
    number = (await at_work.done("olga", "GET", "projects/proteins"))["number"]
    await at_work.done("olga", "POST", "projects/proteins/archive", {"number": number})
    assert (await at_work.done("mike", "GET", "run-form"))["projects"] == []


async def test_the_estimate_is_that_of_the_project(at_work: Site) -> None:
    async def answered(request: Any, *_: Any) -> StartAnswer:
        words = f"{request.resources.account} {request.resources.gpus}"
        return StartAnswer(outlook=Outlook.NOW, words=words, made_at=0.0)

    async def cluster(*_: Any, **__: Any) -> Any:
        partition = Partition(name="gpu", default=True, nodes=("gpu01",))
        seen = at_work.parts.dashboard.view.snapshot  # type: ignore[union-attr]
        return seen.model_copy(update={"partitions": {"gpu": partition}})

    async def associations(user: str) -> Any:
        return (Association(account="teaching", user=user),)

    at_work.parts.cluster = SimpleNamespace(snapshot=cluster, associations=associations)  # type: ignore[assignment]
    at_work.parts.estimates.answer = answered  # type: ignore[assignment,method-assign]
    path = "session/runs/estimates"
    for options, words in (
        ({"project": "proteins"}, "teaching 0"),
        ({"project": "proteins", "gpus": 2}, "teaching 2"),
        ({"project": "proteins", "gpus": 3}, "2"),
        ({"project": "proteins", "environment": "venv"}, "Available: lab."),
    ):
        answer = await at_work.done("mike-working", "POST", path, {"options": options})
        assert words in answer["words"], (options, answer)
    for name in ("nothing", ["proteins"], {"a": 1}):
        body = {"options": {"project": name}}
        assert "that you can access" in await at_work.refused(
            403, "mike-working", "POST", path, body
        )
