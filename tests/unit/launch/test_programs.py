"""Programs of environments as data: a site's become kinds, and what is wrong with one is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from clusters import record
from traitlets.config import Config

import portal.work  # noqa: F401  adds the programs
from portal.catalog.builds.submitting import Submitter
from portal.errors import ConfigurationError
from portal.images.settings import Images
from portal.launch.course_space import CourseSpace
from portal.launch.kinds import KINDS, offered_kinds, program_kinds, requested_kind
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.program import CODE_SERVER, program_kind
from portal.launch.programs import Programs, session_variables
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import Work
from portal.models.session.session import SessionState
from portal.sessions.item import SessionContext, session_item
from portal.work.course.kind import Rehearsal, Room

VIEWER = {
    "title": "Viewer",
    "argv": ["viewer", "--at", "{socket}", "--below", "{base}"],
    "executable": "viewer",
}
LAB = Environment(
    name="lab", title="Lab", kind="venv", path="/v", opens=("code-server", "viewer", "gone")
)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    own = list(KINDS)
    yield
    KINDS[:] = own


def site(definitions: Any) -> None:
    Programs(config=Config({"Programs": {"definitions": definitions}})).register()


def test_a_sites_program_is_a_kind_like_the_portals_own() -> None:
    assert list(program_kinds()) == ["marimo", "code-server"]
    for _ in range(2):  # again, as by a second reading of the configuration
        site({"viewer": VIEWER})
    assert list(program_kinds()) == ["marimo", "code-server", "viewer"]
    assert "viewer" in offered_kinds()
    kind = requested_kind({"kind": "viewer"})
    assert kind.unfit(LAB) == "" and kind.own() == {"kind": "viewer"}
    told = json.loads(kind.variables()["PORTAL_PROGRAM"])
    assert told["title"] == "Viewer" and told["argv"][-5:] == VIEWER["argv"]
    assert told["argv"][3:7] == ["Viewer", "bin/viewer", "", ""]


@pytest.mark.parametrize(
    ("name", "changed", "sentence"),
    [
        ("Viewer", {}, r"definitions\['Viewer'\], name: String should match"),
        ("v", {"title": ""}, r"definitions\['v'\], title: String should have at least 1"),
        ("v", {"argv": []}, "argv: .*at least 1 item"),
        ("v", {"argv": ["v", "{home}"]}, r"\{home\} is not known; known are \{python\}"),
        ("v", {"argv": ["v"]}, r"needs either \{socket\} or \{port\}: where the program listens"),
        ("v", {"argv": ["v", "{socket}", "{port}", "{secret}"]}, r"either \{socket\} or \{port\}"),
        ("v", {"argv": ["v", "{port}"]}, r"\{port\} without \{secret\}: every user of a node"),
        ("v", {"executable": ""}, "needs either 'package' or 'executable'"),
        ("v", {"package": "v"}, "needs either 'package' or 'executable'"),
        ("v", {"executable": "/usr/bin/v"}, "executable: String should match"),
        ("v", {"least": "1.2"}, "'least' and 'reason' belong together"),
        ("v", {"least": "new", "reason": "x"}, "least: it is not a version, such as 1.2.3"),
        ("v", {"command": "v"}, "command: Extra inputs are not permitted"),
        ("v", None, "must be a dictionary with 'title' and 'argv'"),
        ("marimo", {}, "Two kinds of sessions have the name 'marimo'"),
        ("run", {}, "Two kinds of sessions have the name 'run'"),
    ],
)
def test_what_is_wrong_with_a_definition_is_said(
    name: str, changed: dict[str, Any] | None, sentence: str
) -> None:
    before = list(KINDS)
    with pytest.raises(ConfigurationError, match=sentence):
        site({name: None if changed is None else {**VIEWER, **changed}})
    assert before == KINDS


def opened(kind: Any, environment: Environment = LAB) -> list[str]:
    told = session_variables(kind, environment).get("PORTAL_OPENS", "{}")
    return list(json.loads(told))


def test_a_session_of_a_users_own_opens_those_of_its_environment_beside_it() -> None:
    assert opened(JupyterLab()) == ["code-server"]
    site({"viewer": VIEWER})
    assert opened(JupyterLab()) == ["code-server", "viewer"]
    told = json.loads(session_variables(JupyterLab(), LAB)["PORTAL_OPENS"])["code-server"]
    assert told == program_kind(CODE_SERVER).for_session()
    assert opened(JupyterLab(), LAB.model_copy(update={"opens": ()})) == []
    assert opened(program_kind(CODE_SERVER)()) == []


def test_no_session_of_a_course_opens_any_beside_it() -> None:
    """Helpers and members are let into them."""
    for kind in (JupyterLab, Rehearsal, Room):
        assert opened(kind(space=CourseSpace(name="dl101"))) == []


def links(**words: Any) -> list[tuple[str, str]]:
    usual: dict[str, Any] = {"state": SessionState.RUNNING, "work": "jupyterlab"}
    shown = record(
        **{"id": "s1", "job_id": "7", "user": "ada", "submitted_at": 1.0, **usual, **words}
    )
    context = SessionContext(viewer="ada", base="/", now=2, environment=LAB)
    return [(link.title, link.url) for link in session_item(shown, context).programs]


def test_the_sessions_page_has_a_link_to_each() -> None:
    url = "/user/ada/portal/programs/code-server/"
    assert links() == [("code-server", url)]
    assert links(server="second")[0][1] == url.replace("portal", "second/portal", 1)
    assert links(state=SessionState.PENDING) == links(state=SessionState.ENDED) == []
    assert links(user="barbara") == []
    assert links(work="marimo") == links(work="run") == links(space="dl101") == []


def test_the_smoke_test_gets_the_guards_of_the_sites_programs() -> None:
    """The job that makes the test does not read the site's configuration."""
    site({"viewer": VIEWER})
    submitter = object.__new__(Submitter)
    submitter.images = Images()
    job = submitter.job(Work.TEST, "n", LAB)
    assert [guard[4] for guard in job.guards] == ["bin/code-server", "bin/viewer"]
