"""Routes of JupyterLab's dialog for runs: what they answer, and what they leave in the home. The
portal is played."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jupyter_server.auth.authorizer import AllowAllAuthorizer
from portal_session import portal_error
from portal_session.runs import plan
from portal_session.runs.lab import handlers
from portal_session.service import ServiceError
from served import Served, served
from tornado.web import Application

NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "language": "python"}},
    "cells": [
        {
            "cell_type": "code",
            "metadata": {"tags": ["parameters"]},
            "source": "lr = 0.1  # learning rate\nname = 'a'",
        }
    ],
}


class Portal:
    """The service; an answer that is an error is raised."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answer: Any = {"items": []}
        self.runs: Any = []
        self.submitted: list[Any] = []
        self.refusal: ServiceError | None = None
        self.outages = 0  # requests that are not answered

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        if (method, path) == ("POST", "session/runs") or path.startswith("runs/"):
            self.submitted.append((method, path, body))
            if self.outages:
                self.outages -= 1
                raise ServiceError("The portal cannot be reached.", 503, away=True)
            if self.refusal is not None:
                raise self.refusal
            return {}
        of_user = path == "runs?limit=200"
        if not of_user:
            self.asked.append((method, path, body))
        answer = {"items": self.runs} if of_user else self.answer
        error = self.runs if of_user else self.answer
        if isinstance(error, Exception):
            raise error
        return dict(answer)


class Site:
    """The routes of the session of a user, whose files are in ``home``."""

    def __init__(self, server: Served, portal: Portal, home: Path) -> None:
        self.server, self.portal, self.home = server, portal, home

    async def ask(self, method: str, path: str = "", body: Any = None) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        answer = await self.server.ask(method, f"/user/ada/portal/runs{path}", body=content)
        return answer.status, json.loads(answer.text)


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    home, portal = tmp_path / "home", Portal()
    home.mkdir()
    (home / "train.ipynb").write_text(json.dumps(NOTEBOOK))
    (home / "train.py").write_text("print('on')\n")
    monkeypatch.setattr(plan, "git_state", lambda folder: None)
    monkeypatch.setenv("PORTAL_ENVIRONMENT", "torch")
    monkeypatch.setattr(handlers._Handler, "get_current_user", lambda _: "ada")
    monkeypatch.setattr(handlers._Handler, "check_xsrf_cookie", lambda _: None)
    monkeypatch.setattr(handlers._Handler, "prepare", lambda _: None)
    application = Application(
        handlers.routes("/user/ada/", portal.ask, home), authorizer=AllowAllAuthorizer()
    )
    async with served(application) as server:
        yield Site(server, portal, home)


async def test_the_choices_are_the_portal_s(site: Site) -> None:
    assert await site.ask("GET") == (200, {"items": []})
    assert site.portal.asked == [("GET", "session/runs/choices", None)]
    site.portal.answer = ServiceError("Runs are not offered on this site.", 403)
    assert await site.ask("GET") == (403, {"message": "Runs are not offered on this site."})


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def test_the_parameters_of_a_notebook(site: Site) -> None:
    status, answer = await site.ask("GET", "/source?path=train.ipynb")
    assert (status, answer["name"]) == (200, "train")
    assert answer["parameters"] == [
        {"name": "lr", "type": "float", "value": "0.1", "help": "learning rate"},
        {"name": "name", "type": "str", "value": "'a'", "help": ""},
    ]
    assert await site.ask("GET", "/source?path=train.py") == (
        200,
        {"name": "train", "sha256": sha256_of(site.home / "train.py"), "parameters": None},
    )


async def test_a_path_of_a_project_begins_in_its_folder(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the server's own files begin."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "only.py").write_text("print(1)\n")
    monkeypatch.setenv("PORTAL_PROJECT_FOLDER", str(folder))
    assert (await site.ask("GET", "/source?path=only.py"))[0] == 400
    status, answer = await site.ask("GET", "/source?path=only.py&in_project=1")
    assert (status, answer["sha256"]) == (200, sha256_of(folder / "only.py"))
    assert (await site.ask("GET", "/source?path=../home/train.py&in_project=1"))[0] == 400


async def test_the_first_cell_has_the_parameters_on_request(site: Site) -> None:
    """The tag is in the copy that is executed; the notebook stays as it is."""
    markdown = {"cell_type": "markdown", "metadata": {}, "source": "# Training"}
    empty = {"cell_type": "code", "metadata": {}, "source": " ", "outputs": []}
    code = {**empty, "metadata": {"tags": ["keep"]}, "source": ["lr = 0.1\n", "é = 'a'"]}
    plain = {**NOTEBOOK, "cells": [markdown, empty, code, {**code, "source": "print(lr)"}]}
    (site.home / "plain.ipynb").write_text(json.dumps(plain))
    body: dict[str, Any] = {"source": "plain.ipynb", "values": {"lr": "1, 2"}}
    assert (await site.ask("GET", "/source?path=plain.ipynb"))[1]["parameters"] == []
    status, answer = await site.ask("POST", "/points", body)
    assert (status, answer["field"]) == (400, "values:lr")
    status, answer = await site.ask("GET", "/source?path=plain.ipynb&first_cell=1")
    assert [each["name"] for each in answer["parameters"]] == ["lr", "é"]
    body["first_cell"] = True
    assert await site.ask("POST", "/points", body) == (200, {"points": 2})
    assert (await site.ask("POST", "", body))[0] == 200
    frozen = json.loads((site.home / "runs/plain/source.ipynb").read_text(encoding="utf-8"))
    tags = [cell["metadata"].get("tags") for cell in frozen["cells"]]
    assert tags == [None, None, ["keep", "parameters"], ["keep"]]
    assert json.loads((site.home / "plain.ipynb").read_text()) == plain
    # A cell with the tag goes first, a script takes any, and without code there is none.
    tagged = await site.ask("GET", "/source?path=train.ipynb&first_cell=1")
    assert tagged == await site.ask("GET", "/source?path=train.ipynb")
    assert (await site.ask("GET", "/source?path=train.py&first_cell=1"))[0] == 200
    (site.home / "empty.ipynb").write_text(json.dumps({**NOTEBOOK, "cells": [markdown, empty]}))
    status, answer = await site.ask("GET", "/source?path=empty.ipynb&first_cell=1")
    assert (status, answer["field"]) == (400, "source") and "no code cell" in answer["message"]


@pytest.mark.parametrize("path", ["gone.ipynb", "../train.py", "", "a\0b.py", "home.txt"])
async def test_a_file_that_cannot_be_run(site: Site, path: str) -> None:
    status, answer = await site.ask("GET", f"/source?path={quote(path)}")
    assert (status, answer["field"]) == (400, "source") and answer["message"].endswith(".")


async def test_points_are_counted_and_nothing_is_written(site: Site) -> None:
    body: dict[str, Any] = {"source": "train.ipynb", "values": {"lr": "0.1, 0.2", "name": "a,b,c"}}
    assert await site.ask("POST", "/points", body) == (200, {"points": 6})
    status, answer = await site.ask("POST", "/points", {**body, "values": {"lr": "high"}})
    assert (status, answer["field"]) == (400, "values:lr")
    assert answer["message"] == "'lr' is a number in the notebook, and cannot be \"high\"."
    cell = {"source": "train.ipynb", "cell": "print(rate)", "values": {"rate": "1,2,3"}}
    assert await site.ask("POST", "/points", cell) == (200, {"points": 3})
    assert sorted(path.name for path in site.home.iterdir()) == ["train.ipynb", "train.py"]
    assert site.portal.submitted == []


async def test_a_run_is_started(site: Site) -> None:
    body = {
        "source": "train.ipynb",
        "name": "rates",
        "values": {"lr": "0.1,0.2"},
        "at_once": 1,
        "environment": "jax",
        "resources": {"gpus": 1, "memory": "8G", "partition": "gpu"},
    }
    status, answer = await site.ask("POST", "", body)
    assert status == 200, answer
    id_ = answer.pop("id")
    assert answer == {
        "name": "rates", "points": 2, "at_once": 1, "folder": "runs/rates", "message": "",
        "after": "",
    }  # fmt: skip
    ((method, path, asked),) = site.portal.submitted
    assert (method, path, asked["id"]) == ("POST", "session/runs", id_)
    assert asked["folder"] == str(site.home / "runs/rates")
    assert (asked["environment"], asked["gpus"], asked["memory"]) == ("jax", 1, "8G")
    assert asked["partition"] == "gpu"
    frozen = json.loads((site.home / "runs/rates/run.json").read_text())
    assert frozen["points"] == [{"lr": 0.1}, {"lr": 0.2}]


async def test_the_least_that_starts_one(site: Site) -> None:
    status, answer = await site.ask("POST", "", {"source": "train.ipynb"})
    assert (status, answer["name"], answer["points"]) == (200, "train", 1)
    assert site.portal.submitted[0][2]["environment"] == "torch", "the session's"


async def test_a_cell_becomes_a_script_beside_its_notebook(site: Site) -> None:
    body = {"source": "train.ipynb", "cell": "print(lr)", "values": {"lr": "1,2"}}
    status, answer = await site.ask("POST", "", body)
    assert (status, answer["name"], answer["folder"]) == (200, "train-cell", "runs/train-cell")
    assert (site.home / "train-cell.py").read_text().endswith("\nprint(lr)\n")
    assert (site.home / "runs/train-cell/source.py").exists()


@pytest.mark.parametrize("cell", [None, "print(1)"])
async def test_a_refused_run_leaves_nothing(site: Site, cell: str | None) -> None:
    site.portal.refusal = ServiceError("You have 20 runs waiting or running; the limit is 20.", 403)
    status, answer = await site.ask("POST", "", {"source": "train.ipynb", "cell": cell})
    assert (status, answer["field"]) == (400, "")
    assert answer["message"] == "You have 20 runs waiting or running; the limit is 20."
    assert sorted(path.name for path in site.home.iterdir()) == ["train.ipynb", "train.py"]


async def test_a_run_waits_while_the_portal_is_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id of the run is chosen before, so that a request that comes twice starts one run."""
    monkeypatch.setattr(portal_error, "PAUSE", 0.001)
    site.portal.outages = 2
    status, answer = await site.ask("POST", "", {"source": "train.py"})
    assert (status, answer["message"], site.portal.outages) == (200, "", 0)
    assert [body["id"] for _, _, body in site.portal.submitted] == [answer["id"]] * 3


ID = "5e2f3c1a0b7d4c8e9a6f1d2e3f405162"


async def test_a_request_that_comes_again_starts_one_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a page that got no answer: while the first still waits for the portal, and afterwards."""
    monkeypatch.setattr(portal_error, "PAUSE", 0.2)
    site.portal.outages = 3
    body = {"source": "train.py", "id": ID}
    answers = await asyncio.gather(*(site.ask("POST", "", body) for _ in range(3)))
    answers.append(await site.ask("POST", "", body))
    assert [(status, answer["id"], answer["name"]) for status, answer in answers] == [
        (200, ID, "train")
    ] * 4
    assert [path.name for path in (site.home / "runs").iterdir()] == ["train"]
    assert [asked["id"] for _, _, asked in site.portal.submitted] == [ID] * 4
    status, answer = await site.ask("POST", "", {**body, "name": "other"})
    assert (status, answer["message"][:35]) == (400, "This page has started a run already")


async def test_a_request_that_was_refused_may_come_again(site: Site) -> None:
    body = {"source": "gone.py", "id": ID}
    for _ in range(2):
        status, answer = await site.ask("POST", "", body)
        assert (status, answer["field"]) == (400, "source")
    (site.home / "gone.py").write_text("print('on')\n")
    assert (await site.ask("POST", "", body))[1]["id"] == ID


@pytest.mark.parametrize("id_", ["../x", "a", 7, ["a"], "x" * 32, "a" * 41])
async def test_an_id_that_is_none(site: Site, id_: Any) -> None:
    status, answer = await site.ask("POST", "", {"source": "train.py", "id": id_})
    assert (status, answer["field"], site.portal.submitted) == (400, "id", [])


async def test_an_answer_that_is_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run counts if the portal has it; if that is not known, its folder stays."""
    site.portal.refusal = ServiceError("The portal's answer takes too long.", 503)
    status, answer = await site.ask("POST", "", {"source": "train.py"})
    assert (
        status == 400
        and "It is not known whether the run 'train' was accepted." in answer["message"]
    )
    assert (site.home / "runs/train/run.json").exists()
    submitted = [(method, path.partition("/")[0]) for method, path, _ in site.portal.submitted]
    assert submitted == [("POST", "session"), ("GET", "runs")]


async def test_a_refusal_names_its_field(site: Site) -> None:
    sentence = "You cannot use the account 'x'. Your accounts: physics."
    site.portal.refusal = ServiceError(sentence, 403, field="account")
    body = {"source": "train.ipynb", "resources": {"account": "x"}}
    assert await site.ask("POST", "", body) == (400, {"message": sentence, "field": "account"})
    site.portal.answer = ServiceError(sentence, 400, field="account")
    answer = await site.ask("POST", "/estimate", {"options": {"account": "x"}})
    assert answer == (400, {"message": sentence, "field": "account"})


async def test_the_runs_that_one_can_start_after(site: Site) -> None:
    """Those that have not ended, in the portal's order: the newest first."""
    counts = {"waiting": 1, "running": 1, "succeeded": 1, "failed": 2, "lost": 1}
    site.portal.runs = [
        {"id": "3e2f3c1a", "name": "train", "points": 6, "counts": counts, "ended_at": None},
        {"id": "2e2f3c1a", "name": "old", "points": 1, "counts": {}, "ended_at": 5.0},
        {"id": "1e2f3c1a", "name": "prepare", "points": 2, "counts": {"waiting": 2}},
    ]
    items = [
        {"id": "3e2f3c1a", "name": "train", "points": 6, "ended": 4, "failed": 3},
        {"id": "1e2f3c1a", "name": "prepare", "points": 2, "ended": 0, "failed": 0},
    ]
    assert await site.ask("GET", "/unfinished") == (200, {"items": items})
    status, answer = await site.ask("POST", "", {"source": "train.py", "after": "1e2f3c1a"})
    assert (status, answer["after"]) == (200, "prepare")
    assert site.portal.submitted[0][2]["after"] == "1e2f3c1a"


@pytest.mark.parametrize("cell", [None, "print(1)"])
async def test_a_run_that_nothing_can_start_after(site: Site, cell: str | None) -> None:
    """It was deleted or failed meanwhile, or the portal does not answer."""
    body = {"source": "train.ipynb", "cell": cell, "after": "1e2f3c1a"}
    status, answer = await site.ask("POST", "", body)
    assert (status, answer["field"]) == (400, "after")
    assert answer["message"].startswith("You have no run '1e2f3c1a'.")
    site.portal.runs = [{"id": "1e2f3c1a", "name": "prepare", "ended_at": 5.0}]
    site.portal.refusal = ServiceError("No run can start after 'prepare'.", 409, field="after")
    refused = {"message": "No run can start after 'prepare'.", "field": "after"}
    assert await site.ask("POST", "", body) == (400, refused)
    site.portal.runs = ServiceError("The portal cannot be reached.", 503)
    unknown = {"message": "The portal cannot be reached.", "field": ""}
    for request in (("POST", "", body), ("GET", "/unfinished")):
        assert await site.ask(*request) == (400, unknown)
    assert sorted(path.name for path in site.home.iterdir()) == ["train.ipynb", "train.py"]


async def test_the_estimate_is_the_portal_s(site: Site) -> None:
    site.portal.answer = {"words": "Starts now.", "nearby": []}
    options = {"environment": "torch", "gpus": 1}
    assert await site.ask("POST", "/estimate", {"options": options}) == (200, site.portal.answer)
    assert site.portal.asked == [("POST", "session/runs/estimates", {"options": options})]
    status, answer = await site.ask("POST", "/estimate", {"options": 7})
    assert (status, answer["message"]) == (400, "'options' must be a JSON object.")


@pytest.mark.parametrize("body", [[], "x", {"source": 7}, {"source": "train.py", "cell": 7}])
async def test_hostile_bodies_are_refused(site: Site, body: Any) -> None:
    for path in ("", "/points"):
        status, answer = await site.ask("POST", path, body)
        assert status == 400 and answer["message"].endswith(".")
    assert site.portal.submitted == [] and not (site.home / "runs").exists()


async def test_a_guest_of_the_session_starts_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers._Handler, "portal_guest", "grace", raising=False)
    own = (("GET", ""), ("GET", "/source?path=train.py"), ("GET", "/unfinished"), ("POST", ""))
    for method, path in own:
        status, answer = await site.ask(method, path, {} if method == "POST" else None)
        assert (status, answer["message"]) == (403, "Only the owner of this session can do this.")


async def test_a_body_that_is_too_long(site: Site) -> None:
    status, answer = await site.ask("POST", "/points", {"cell": "x" * 600_000})
    assert status == 413 and answer["message"].endswith("bytes.")
