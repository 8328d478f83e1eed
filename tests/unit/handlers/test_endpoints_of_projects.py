"""Endpoints for a project over the API: who may make, see and use which, by their role."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from session_endpoints import of_server, person
from session_records import recorded
from test_endpoints import TOKENS, VERSION, Site, site

from portal.models.scope import PROJECTS_MANAGE
from portal.models.session.resources import Resources
from portal.models.session.session import SessionState
from portal.models.space import Role, SpaceState
from portal.projects.models import Project, ProjectMember, StoredProject
from portal.projects.tables import ProjectTable
from portal.work.endpoint.figures import EndpointFigures, EndpointFigureTable
from portal.work.endpoint.models import EndpointReplica
from portal.work.endpoint.tables import EndpointReplicaTable, EndpointTable

__all__ = ["site"]
ROLES = {"ada": Role.MEMBER, "olga": Role.OWNER, "rita": Role.READER}
AT = "projects/proteins/endpoints"


def of_project(name: str, **more: Any) -> StoredProject:
    values = {"title": name.title(), "largest": Resources(gpus=1), **more}
    return StoredProject(
        project=Project(name=name, **values), state=SpaceState.APPROVED, created_by="olga",
        created_at=0, changed_at=0,
    )  # fmt: skip


@pytest.fixture
async def team(site: Site, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """Ada's site with the project 'proteins', and one of olga alone."""
    for who in ("olga", "rita", "eve"):
        monkeypatch.setitem(TOKENS, who, person(who))
    monkeypatch.setitem(TOKENS, "grace", person("grace", PROJECTS_MANAGE))
    monkeypatch.setitem(TOKENS, "in project", of_server("ada", "fold"))
    record = recorded(
        id="9", user="ada", server="fold", job_id="42", state=SessionState.RUNNING,
        submitted_at=time.time(), space="proteins", environment="lab",
    )  # fmt: skip
    await site.store.sessions.save(record)
    site.parts.telemetry = SimpleNamespace(simulated=False)
    offering = SimpleNamespace(gpu_types=lambda environment, types: sorted(types))
    site.parts.catalog.offering = offering
    members = [ProjectMember(project="proteins", person=who, role=r) for who, r in ROLES.items()]
    table = site.store.table(ProjectTable)
    await table.add_space(of_project("proteins"), members)
    await table.add_space(
        of_project("secret"), [ProjectMember(project="secret", person="olga", role=Role.OWNER)]
    )
    yield site


async def test_it_is_made_for_a_project_and_stays_there(team: Site) -> None:
    made = await team.done("PUT", body={"project": "proteins"})
    assert (made["owner"], made["project"]) == ("ada", "proteins")
    words = await team.refused(400, "PUT", body={"project": ""})
    assert words.startswith("The project of an endpoint cannot be changed.")
    changed = await team.done("PUT", body={"most": 2})
    assert (changed["project"], changed["most"]) == ("proteins", 2)
    detail = await team.done("POST", "models/embed/versions", VERSION)
    assert detail["versions"][0]["resources"] == {"gpus": 1}


@pytest.mark.parametrize(
    ("who", "project", "words"),
    [
        ("rita", "proteins", "You are a reader of the project 'Proteins', so endpoints cannot be"),
        ("eve", "proteins", "There is no project or course 'proteins' that you can access."),
        ("ada", "secret", "There is no project or course 'secret' that you can access."),
        ("ada", "nothere", "There is no project or course 'nothere' that you can access."),
    ],
)
async def test_who_may_not_serve_for_a_project(
    team: Site, who: str, project: str, words: str
) -> None:
    message = await team.refused(403, "PUT", body={"project": project}, who=who)
    assert message.replace("course or project", "project or course").startswith(words)
    assert await team.store.table(EndpointTable).every() == []
    for path, method, body in (
        (f"model-choices?project={project}", "GET", None),
        ("model-estimates", "POST", {"project": project, "options": {"environment": "lab"}}),
    ):
        assert (await team.ask(method, path, body, who=who)).status_code == 403


async def test_versions_have_the_limits_and_choices_of_the_project(team: Site) -> None:
    await team.done("PUT", body={"project": "proteins"})
    words = await team.refused(403, "POST", "models/embed/versions", {**VERSION, "gpus": 2})
    assert words == "The project 'Proteins' allows each member 1 GPU at once, not 2."
    body = {**VERSION, "account": "other"}
    words = await team.refused(400, "POST", "models/embed/versions", body)
    assert words.startswith("The project sets 'account'.")
    choices = await team.done("GET", "model-choices?project=proteins")
    assert [each["title"] for each in choices["items"]] == ["Proteins: Lab"]
    names = {each["name"] for each in choices["fields"]}
    assert {"gpus", "time"} <= names and not {"account", "nodes", "reservation"} & names
    own = await team.done("GET", "model-choices")
    assert [each["title"] for each in own["items"]] == ["Lab"]
    assert own["projects"] == [{"name": "proteins", "title": "Proteins"}]
    assert (await team.done("GET", "model-choices", who="rita"))["projects"] == []
    options = {"environment": "lab", "gpus": 2}
    refused = {"project": "proteins", "options": options}
    assert (await team.done("POST", "model-estimates", refused))["outlook"] == "refused"
    stored = await team.store.table(ProjectTable).get("proteins")
    none = stored.project.model_copy(update={"environments": ("other",)})
    await team.store.table(ProjectTable).save(stored.model_copy(update={"project": none}))
    team.parts.memberships.forget()
    assert (await team.done("GET", "model-choices?project=proteins"))["items"] == []


@pytest.mark.parametrize(
    ("made", "own"), [({"project": "proteins"}, True), ({"projects": ["proteins"]}, False)]
)
async def test_each_role_sees_and_uses_what_it_may(team: Site, made: Any, own: bool) -> None:
    """Expected against got: the list, the trial, and the project's page, for every role."""
    await team.done("PUT", body=made)
    await team.done("POST", "models/embed/versions", VERSION)
    at = time.time()
    figures = EndpointFigures(endpoint="embed", at=at + 1, seconds=1800, requests=7, gpus=1)
    await team.store.table(EndpointFigureTable).add_figures([figures])
    ready = EndpointReplica(
        user="ada", id="1" * 20, endpoint="embed", version=1, environment="lab",
        command=("app", "{socket}"), created_at=at, ready_at=at,
    )  # fmt: skip
    await team.store.table(EndpointReplicaTable).add_replica(ready)
    expected = {
        "ada": (["embed"], 200, 200), "olga": (["embed"], 200, 200), "rita": ([], 404, 403),
        "eve": ([], 404, 403), "grace": ([], 404, 200),
    }  # fmt: skip
    for who, wanted in expected.items():
        listed = (await team.done("GET", "models", who=who))["items"]
        trial = await team.ask("GET", "models/embed/trial", who=who)
        page = await team.ask("GET", AT, who=who)
        got = ([each["name"] for each in listed], trial.status_code, page.status_code)
        assert got == wanted, who
        status = 200 if who == "ada" else 403 if wanted[0] else 404
        assert (await team.ask("GET", who=who)).status_code == status
        if who != "ada":
            shares = {"shares": {"1": 100}}
            changed = await team.ask("PUT", "models/embed/shares", shares, who=who)
            assert changed.status_code == status
    (item,) = (await team.done("GET", AT, who="olga"))["items"]
    assert (item["name"], item["owner"], item["shared"]) == ("embed", "ada", not own)
    assert (item["state"], item["ready"]) == ("ready", 1)
    assert (item["requests"], item["gpu_hours"]) == ((7, 0.5) if own else (None, None))
    assert item["address"] == "/services/portal/models/embed/"


async def test_who_leaves_uses_it_no_more(team: Site) -> None:
    await team.done("PUT", body={"project": "proteins"})
    assert (await team.ask("GET", "models/embed/trial", who="olga")).status_code == 200
    await team.store.table(ProjectTable).members.remove("proteins", ["olga", "ada"])
    team.parts.memberships.forget()
    assert (await team.ask("GET", "models/embed/trial", who="olga")).status_code == 404
    words = await team.refused(403, "POST", "models/embed/versions", VERSION)
    assert "'proteins' that you can access" in words
    assert (await team.done("GET"))["owner"] == "ada", "it stays the owner's, who can delete it"
    await team.done("DELETE")


async def test_it_is_shared_with_projects_of_ones_own_only(team: Site) -> None:
    words = await team.refused(403, "PUT", body={"projects": ["proteins", "secret"]})
    assert words == "There is no project 'secret' of which you are a member."
    await team.done("PUT", body={"projects": ["proteins"]})
    await team.store.table(ProjectTable).members.remove("proteins", ["ada"])
    team.parts.memberships.forget()
    # What was there stays, and can be taken away.
    assert (await team.done("PUT", body={"projects": ["proteins"], "most": 2}))["most"] == 2
    assert (await team.done("PUT", body={"projects": []}))["projects"] == []
    words = await team.refused(403, "PUT", body={"projects": ["proteins"]})
    assert "of which you are a member" in words
    for wrong in ("../x", "A", "x" * 30, 5):
        await team.refused(400, "PUT", body={"projects": [wrong]})
        await team.refused(400, "PUT", body={"project": wrong})


async def test_a_projects_session_may_serve(team: Site) -> None:
    body = {"project": "proteins"}
    made = await team.done("PUT", "session/models/embed", body, who="in project")
    assert made["project"] == "proteins"


async def test_an_earlier_endpoint_of_the_name_is_not_counted(team: Site) -> None:
    await team.done("PUT", body={"project": "proteins"})
    before = EndpointFigures(endpoint="embed", at=time.time() - 60, seconds=60, requests=5)
    await team.store.table(EndpointFigureTable).add_figures([before])
    (item,) = (await team.done("GET", AT))["items"]
    assert (item["requests"], item["state"]) == (0, "empty")
