"""The same project elsewhere: its file, templates, and the runs of a file once more. The session
that starts a run is played by its answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from session_endpoints import of_server
from test_projects_api import PEOPLE, PROTEINS, Site, running

from portal.errors import InvalidRequest
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.run_conditions import Conditions, RunConditions, Software
from portal.projects.elsewhere.document import project_text, read_project
from portal.projects.elsewhere.tables import ProjectContentTable
from portal.work.run.kind import Run as RunKind
from portal.work.run.tables.conditions import RunConditionTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

SHA = "b" * 64
SCRIPT, IMAGE = f"sha256:{SHA}", f"sha256:{'c' * 64}"
FACTS = RunConditions(
    conditions=Conditions(
        script=SCRIPT, image=IMAGE, gpus="1 of type H200", driver="570.1", slurm="25.05.1"
    ),
    software=Software(python="3.11.4", packages=("numpy==2.0.1", "torch==2.4.0")),
)
OLGAS = "00000000-0000-4000-8000-000000000001"
TEMPLATE = """
format: 1
project: {name: any, title: Any, budget: 10, environments: [lab]}
people: {owners: [mallory]}
"""


class Session:
    """Answers of a user's running session to the page, and the runs that it was asked for."""

    def __init__(self, hub: Any) -> None:
        self.sha256, self.started = SHA, list[dict[str, Any]]()
        hub.ask_run_form = self.ask

    async def ask(
        self, user: str, server: str, part: str, query: Any, body: Any = None
    ) -> dict[str, Any]:
        assert (user, server) == ("mike", "work")
        if part == "source":
            if query != {"path": "src/train.py", "in_project": "1"}:
                raise InvalidRequest(f"There is no file '{query['path']}'. Check the path.")
            return {"sha256": self.sha256, "name": "train", "parameters": None}
        assert part == "start"
        self.started.append(body)
        return {"id": body["id"], "name": f"{body['name']}-2", "points": len(body["rows"])}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path, approval="policy") as site:
        site.parts.hub_host = ""
        yield site


async def ended(site: Site, user: str, id_: str, **more: Any) -> Run:
    """Store a run of the project that has succeeded, with two points."""
    about: dict[str, Any] = {
        "name": "sweep",
        "source": "/home/olga/proteins/src/train.py",
        "folder": "/home/olga/proteins/src/runs/sweep",
        "environment": "lab",
        "digest": IMAGE,
        "resources": {"gpus": 1, "memory": "4G", "account": "teaching", "partition": "gpu"},
        "metrics": ({"loss": 0.5}, {"loss": 0.25}),
        "facts": FACTS,
        "states": (PointState.SUCCEEDED, PointState.SUCCEEDED),
        "base": 10.0,
        **more,
    }
    metrics, facts = about.pop("metrics"), about.pop("facts")
    states, base = about.pop("states"), about.pop("base")
    server = RunKind.server_name(id_)
    run = Run(
        id=id_, user=user, server=server, points=2, project="proteins", created_at=1.0, **about
    )
    store = site.parts.store
    await store.table(RunTable).add_run(run)
    points = [
        RunPoint(
            number=number,
            state=states[number],
            attempt=1,
            parameters={"lr": base**-number, "opt": "adam"},
            metrics=metrics[number],
            ended_at=2.0,
        )
        for number in range(2)
    ]
    await store.table(RunPointTable).save([((user, id_), point) for point in points])
    if facts is not None:
        await store.table(RunConditionTable).save((user, id_), facts)
    await store.table(RunTable).end(user, id_, 3.0)
    return run


async def text_of(site: Site, name: str = "proteins") -> str:
    answer = await site.ask("olga", "GET", f"projects/{name}/export")
    assert answer.status_code == 200, answer.text
    return answer.text


async def made(site: Site) -> None:
    members = [{"person": "mike", "role": "member"}, {"person": "rita", "role": "reader"}]
    await site.done("olga", "POST", "projects", {"project": PROTEINS, "members": members})


# -- the file --------------------------------------------------------------------------------------


async def test_a_run_is_exported_imported_and_exported_again(site: Site) -> None:
    await made(site)
    await ended(site, "olga", OLGAS)
    text = await text_of(site)
    file = yaml.safe_load(text)
    (run,) = file["runs"]
    assert run["source"] == "src/train.py" and run["conditions"]["image"] == IMAGE
    assert run["points"] == [{"lr": 1.0, "opt": "adam"}, {"lr": 0.1, "opt": "adam"}]
    assert run["metrics"] == {"loss": {"lowest": 0.25, "highest": 0.5}}
    assert run["resources"] == {"gpus": 1, "memory": "4G"}  # nothing that is this site's alone
    assert file["environments"] == [
        {"name": "lab", "kind": "container", "image": "/images/lab.sif"}
    ]
    assert file["software"][run["software"]]["packages"] == ["numpy==2.0.1", "torch==2.4.0"]
    body = {"text": text, "name": "copy", "members": True}
    await site.done("olga", "POST", "projects/import", body)
    again = await text_of(site, "copy")
    assert again.replace("name: copy", "name: proteins", 1) == text


async def test_what_cannot_be_repeated_is_left_out_in_words(site: Site) -> None:
    await made(site)
    cases: dict[str, dict[str, Any]] = {
        "outside": {"source": "/home/olga/secret/train.py"},
        "hidden": {"source": "/home/olga/proteins/.git/train.py"},
    }
    for number, (name, more) in enumerate(cases.items(), 2):
        await ended(site, "olga", f"{OLGAS[:-1]}{number}", name=name, **more)
    await ended(site, "mike", OLGAS, name="none", facts=None)
    run = await ended(site, "mike", f"{OLGAS[:-1]}8", name="failed")
    point = RunPoint(number=1, state=PointState.FAILED, attempt=2, ended_at=4.0)
    await site.parts.store.table(RunPointTable).save([((run.user, run.id), point)])
    head, _, text = (await text_of(site)).partition("\n")
    for name in ("outside", "hidden", "failed"):
        assert f"the run '{name}'" in head
    (only,) = yaml.safe_load(text)["runs"]
    assert only["name"] == "none" and only["conditions"] == {"image": IMAGE}


async def test_many_runs_make_a_file_that_can_be_imported(site: Site) -> None:
    await made(site)
    packages = tuple(f"package-{n}==1.{n}" for n in range(1500))
    for number in range(12):
        facts = FACTS.model_copy(
            update={"software": Software(python=f"3.{number}", packages=packages)}
        )
        await ended(site, "olga", f"{OLGAS[:-3]}{number:03d}", facts=facts)
    text = await text_of(site)
    assert text.startswith("# Left out:") and "has no room" in text
    names = [run.name for run in read_project(text).runs]
    assert 2 <= len(names) < 12 and names[:2] == ["sweep", "sweep-2"]


async def test_the_conditions_of_a_run_come_with_its_reports(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(site)
    table = site.parts.store.table(RunConditionTable)
    report = {"point": 0, "state": "running", "job": "17_0"}
    told = FACTS.model_dump(mode="json")
    for id_, project in ((OLGAS, "proteins"), (f"1{OLGAS[1:]}", "")):
        server = RunKind.server_name(id_)
        token = f"run-of-{project}"  # models of tokens are cached
        monkeypatch.setitem(PEOPLE, token, of_server("olga", server))
        run = Run(
            id=id_,
            name="sweep",
            source="/home/olga/proteins/train.py",
            folder="/home/olga/proteins/runs/sweep",
            points=2,
            project=project,
            user="olga",
            server=server,
            environment="lab",
            created_at=1.0,
        )
        await site.parts.store.table(RunTable).add_run(run)
        await site.done(token, "POST", "session/points", report | {"conditions": told})
        await site.refused(400, token, "POST", "session/points", report | {"conditions": {"x": 1}})
        known = await table.of_runs([("olga", id_)])
        assert known == ({("olga", id_): FACTS} if project else {})
    # They go with their run.
    await site.parts.store.table(RunTable).end("olga", OLGAS, 3.0)
    await site.parts.store.table(RunPointTable).remove("olga", OLGAS)
    assert await table.of_runs([("olga", OLGAS)]) == {}


# -- templates -------------------------------------------------------------------------------------


async def test_a_project_is_made_from_a_template(site: Site, tmp_path: Path) -> None:
    assert (await site.done("mike", "GET", "projects/templates"))["items"] == []
    folder = tmp_path / "projects"
    folder.mkdir()
    (folder / "any.yaml").write_text(TEMPLATE)
    (folder / "broken.yaml").write_text("format: 1\nproject: {name: a}\n")
    (folder / "pipe.yaml").symlink_to("/dev/zero")
    items = (await site.done("mike", "GET", "projects/templates"))["items"]
    assert [(item["name"], bool(item["problem"])) for item in items] == [
        ("any", False),
        ("broken", True),
        ("pipe", True),
    ]
    asked = {"template": "any", "name": "mine", "title": "Mine"}
    detail = await site.done("mike", "POST", "projects/templates", asked)
    assert (detail["project"]["title"], detail["project"]["budget"]) == ("Mine", 10)
    assert [(m["person"], m["role"]) for m in detail["members"]] == [("mike", "owner")]
    for name, status in (("broken", 400), ("nothing", 404), ("../any", 404)):
        await site.refused(status, "mike", "POST", "projects/templates", asked | {"template": name})
    assert "reserved" in await site.refused(
        400, "mike", "POST", "projects/templates", asked | {"name": "templates"}
    )


@pytest.mark.parametrize(
    "path",
    sorted((Path(__file__).parents[3] / "deploy" / "projects").iterdir()),
    ids=lambda p: p.name,
)
def test_the_templates_of_this_repository_can_be_used(path: Path) -> None:
    known = {each.stem for each in (path.parents[1] / "environments").glob("*.yaml")}
    file = read_project(path.read_text())
    assert file.project.name == path.stem and set(file.project.environments) <= known
    assert read_project(project_text(file.project, (), file.contents)).project == file.project


# -- runs once more --------------------------------------------------------------------------------


@pytest.fixture
async def imported(site: Site) -> Session:
    """Import the file of a project with a run; mike has a session in the copy."""
    await made(site)
    await ended(site, "olga", OLGAS)
    text = await text_of(site)
    await site.parts.store.table(RunPointTable).remove("olga", OLGAS)
    number = (await site.done("olga", "GET", "projects/proteins"))["number"]
    await site.done("olga", "POST", "projects/proteins/archive", {"number": number})
    file = read_project(text)
    contents = await site.parts.store.table(ProjectContentTable).of_project("proteins")
    filled = contents.model_copy(update={"contents": file.contents})
    await site.parts.store.table(ProjectContentTable).put(filled)
    number = (await site.done("olga", "GET", "projects/proteins"))["number"]
    await site.done("olga", "POST", "projects/proteins/restore", {"number": number})
    await site.session("mike")
    return Session(site.hub)


async def test_a_run_of_the_file_is_repeated_and_its_differences_are_told(
    site: Site, imported: Session
) -> None:
    path = "projects/proteins/file"
    section = await site.done("mike", "GET", path)
    (run,) = section["runs"]
    assert run["points"] == 2 and run["metrics"] == {"loss": "0.25 to 0.5"}
    assert section["may_repeat"] and [s["id"] for s in section["sessions"]] == ["s-mike"]
    # This site's image is not known by a digest.
    expected = {"what": "Image", "was": IMAGE[:19], "here": "not known"}
    assert run["differences"] == [expected]
    imported.sha256 = "d" * 64
    preview = await site.done("mike", "GET", f"{path}/runs/sweep?session=s-mike")
    other = {"what": "Script", "was": SCRIPT[:19], "here": f"sha256:{'d' * 12}"}
    assert preview["differences"] == [expected, other]
    imported.sha256 = SHA
    started = await site.done("mike", "POST", f"{path}/runs/sweep", {"session": "s-mike"})
    (body,) = imported.started
    assert started["name"] == "sweep-2" and started["differences"] == [expected]
    assert body["rows"] == [{"lr": 1.0, "opt": "adam"}, {"lr": 0.1, "opt": "adam"}]
    assert body["source"] == "src/train.py" and body["in_project"] is True
    assert body["environment"] == "lab"
    assert body["resources"] == {"gpus": 1, "memory": "4G"}
    # It ends: all is equal.
    await ended(site, "mike", started["id"], name="sweep-2")
    item = (await site.done("rita", "GET", path))["runs"][0]["repetitions"][0]
    assert (item["user"], item["name"], item["state"]) == ("mike", "sweep-2", "identical")
    # A repetition is not another run of the file.
    assert len(yaml.safe_load(await text_of(site))["runs"]) == 1


CONDITIONS = FACTS.conditions
DIFFERENT: list[tuple[Any, dict[str, Any], str]] = [
    (FACTS, {"metrics": ({"loss": 0.5}, {"loss": 0.2500001})}, "Metric loss"),
    (FACTS, {"metrics": ({}, {})}, "Metric loss"),
    (FACTS, {"environment": "venv"}, "Environment"),
    (FACTS, {"states": (PointState.SUCCEEDED, PointState.FAILED)}, "Points"),
    (FACTS, {"base": 2.0}, "Parameters"),
    (None, {}, "Packages"),
    (FACTS.model_copy(update={"software": Software(python="3.11.4")}), {}, "Packages"),
    *(
        (
            FACTS.model_copy(
                update={"conditions": CONDITIONS.model_copy(update={name: value})},
            ),
            {},
            what,
        )
        for name, value, what in (
            ("script", f"sha256:{'d' * 64}", "Script"),
            ("image", f"sha256:{'d' * 64}", "Image"),
            ("gpus", "1 of type A100", "GPUs"),
            ("driver", "", "GPU driver"),
            ("slurm", "24.11.0", "Slurm"),
            ("differs", True, "git state"),
        )
    ),
    *(
        (
            FACTS.model_copy(
                update={"software": Software(python=version, packages=packages)},
            ),
            {},
            what,
        )
        for version, packages, what in (
            ("3.12.0", FACTS.software.packages, "Python"),
            ("3.11.4", ("numpy==2.0.2", "torch==2.4.0"), "Package numpy"),
            ("3.11.4", ("torch==2.4.0",), "Package numpy"),
            ("3.11.4", (*FACTS.software.packages, "x==1"), "Package x"),
        )
    ),
]


async def test_a_repetition_is_identical_only_if_all_conditions_are(
    site: Site, imported: Session
) -> None:
    path = "projects/proteins/file"
    for number, (facts, more, what) in enumerate(DIFFERENT, 10):
        id_ = f"{OLGAS[:-2]}{number}"
        body = {"session": "s-mike", "id": id_}
        assert (await site.done("mike", "POST", f"{path}/runs/sweep", body))["id"] == id_
        await ended(site, "mike", id_, name=f"again-{number}", facts=facts, **more)
        items = (await site.done("mike", "GET", path))["runs"][0]["repetitions"]
        (item,) = [item for item in items if item["run"] == id_]
        assert item["state"] == "different", what
        assert what in [difference["what"] for difference in item["differences"]]
        if facts is not None and not more:
            assert len(item["differences"]) == 1, item["differences"]


async def test_who_may_repeat_what(site: Site, imported: Session) -> None:
    path = "projects/proteins/file"
    for who, status in (("rita", 403), ("eve", 403), ("grace", 403), ("olga", 404)):
        await site.refused(status, who, "POST", f"{path}/runs/sweep", {"session": "s-mike"})
    await site.refused(403, "eve", "GET", path)
    await site.refused(403, "eve", "GET", f"{path}/runs/sweep")
    await site.refused(404, "mike", "POST", f"{path}/runs/nothing", {"session": "s-mike"})
    await site.refused(404, "mike", "POST", f"{path}/runs/sweep", {"session": "s-olga"})
    await site.session("mike", state="ended", ended_at=time.time())
    await site.refused(404, "mike", "POST", f"{path}/runs/sweep", {"session": "s-mike"})
    for who in PEOPLE:  # a person's token is no session's
        await site.refused(403, who, "GET", "session/project/files")
        report = {"revision": "0" * 40}
        await site.refused(403, who, "PUT", "session/project/files", report)
    assert imported.started == []
