"""Curating through the API, on the demo: grace edits, barbara's group sees, ada is an outsider."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_client import API, Caller, error_of

from portal.handlers.routes import endpoints
from portal.models.scope import ENVIRONMENTS_MANAGE, right

SECRET = "s3cr3t-value-of-a-variable"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def barbara(demo: Any) -> Iterator[Caller]:
    with Caller(demo.url, "barbara") as caller:
        yield caller


@pytest.fixture
def name(demo: Any) -> Iterator[str]:
    """Of an environment of this test's own; gone afterwards."""
    made = f"t-{uuid.uuid4().hex[:10]}"
    yield made
    for path in (demo.environments / f"{made}.yaml", *demo.environments.glob(f"{made}-*.yaml")):
        path.unlink(missing_ok=True)


def definition(name: str, **values: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": f"Title of {name}",
        "kind": "venv",
        "path": "/opt/hidden-path",
        "variables": {"CUDA_CACHE_PATH": SECRET},
        **values,
    }


def created(grace: Caller, name: str, **values: Any) -> dict[str, Any]:
    answer = grace.post(
        "environments", json={"definition": definition(name, **values), "comment": "new"}
    )
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def done(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def names(caller: Caller, query: str = "") -> set[str]:
    return {item["name"] for item in done(caller.get(f"environments{query}"))["items"]}


def refused(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return error_of(answer)["message"]


# -- from a draft to people ----------------------------------------------------------------------


def test_from_a_draft_to_a_group_and_back(
    demo: Any, grace: Caller, barbara: Caller, ada: Caller, name: str
) -> None:
    created(grace, name)
    assert name not in names(grace)
    [draft] = [
        item for item in done(grace.get("environments?all=true"))["items"] if item["name"] == name
    ]
    assert (draft["offered"], draft["state"], draft["draft"]["number"]) == (False, "draft", 1)
    assert draft["reason"] == "Not published."
    url = f"environments/{name}/versions/1"
    published = done(grace.post(f"{url}/publish", json={"groups": ["portal-instructors"]}))
    assert (published["state"], published["environment"]["groups"]) == (
        "ready", ["portal-instructors"],
    )  # fmt: skip
    assert name in names(barbara)
    assert name not in names(ada)
    file = demo.environments / f"{name}.yaml"
    assert file.read_text() == done(grace.get(f"{url}/text"))["text"]

    done(grace.post(f"environments/{name}/deprecate", json={"message": "Use another."}))
    seen = done(barbara.get(f"environments/{name}"))
    assert (seen["state"], seen["message"]) == ("deprecated", "Use another.")
    done(grace.post(f"environments/{name}/withdraw", json={"message": "Broken."}))
    assert name not in names(barbara)
    hidden = done(grace.get(f"environments/{name}"))
    assert (hidden["offered"], hidden["reason"]) == (False, "Withdrawn. Broken.")
    back = done(grace.post(f"environments/{name}/rollback", json={"number": 1}))
    assert back["number"] == 4
    assert name in names(barbara)
    history = done(grace.get(f"environments/{name}"))
    assert history["number"] == 4
    assert [one["number"] for one in history["history"]] == [4, 3, 2, 1]
    assert [one["published"] for one in history["history"]] == [True, False, False, False]
    lines = [
        (line["action"], line["outcome"]) for line in grace.items("audit", text=name, limit=50)
    ]
    assert lines == [
        (f"{action}-environment", "done")
        for action in ("roll-back", "withdraw", "deprecate", "publish", "create")
    ]


def test_two_admins_get_a_conflict_with_both_texts(grace: Caller, name: str) -> None:
    created(grace, name)
    first = {"definition": definition(name, title="First"), "base": 1}
    assert done(grace.put(f"environments/{name}", json=first))["number"] == 2
    late = {"definition": definition(name, title="Second"), "base": 1}
    answer = grace.put(f"environments/{name}", json=late)
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert (error["code"], error["number"]) == ("edit_conflict", 2)
    assert "title: First" in error["current"]
    assert "title: Second" in error["yours"]
    assert len(grace.items(f"environments/{name}/versions")) == 2
    assert grace.post("environments", json=late | {"comment": ""}).status_code == 400  # no 'base'
    again = grace.post("environments", json={"definition": definition(name)})
    assert again.json()["error"]["code"] == "edit_conflict"


def test_an_edit_by_hand_meets_a_draft(demo: Any, grace: Caller, name: str) -> None:
    created(grace, name)
    done(grace.post(f"environments/{name}/versions/1/publish", json={}))
    draft = {"definition": definition(name, title="Page"), "base": 1}
    done(grace.put(f"environments/{name}", json=draft))
    file: Path = demo.environments / f"{name}.yaml"
    new = file.with_suffix(".new")  # as an editor and git write
    new.write_text(file.read_text().replace("Title of", "By hand,"))
    new.chmod(0o644)
    new.replace(file)
    answer = grace.post(f"environments/{name}/versions/2/publish", json={})
    assert answer.status_code == 409
    assert "By hand," in answer.json()["error"]["current"]
    assert "title: Page" in answer.json()["error"]["yours"]
    newest = done(grace.get(f"environments/{name}/versions"))["items"][0]
    author = pwd.getpwuid(os.geteuid()).pw_name
    assert (newest["origin"], newest["author"], newest["number"]) == ("file", author, 3)
    assert "By hand," in file.read_text()


def test_a_container_that_was_not_tested_is_not_published(grace: Caller, name: str) -> None:
    values = {"kind": "container", "path": None, "source": "docker://nvcr.io/nvidia/x:1"}
    created(grace, name, **values)
    message = refused(grace.post(f"environments/{name}/versions/1/publish", json={}), 409)
    assert message == f"Version 1 of '{name}' is a draft and must be built first."
    refused(grace.post(f"environments/{name}/versions/1/preview"), 409)


def test_a_preview_is_for_admins(demo: Any, grace: Caller, ada: Caller, name: str) -> None:
    created(grace, name)
    made = done(grace.post(f"environments/{name}/versions/1/preview"))
    assert made["name"] == f"{name}.preview"
    assert made["name"] in names(grace)
    assert made["name"] not in names(ada)
    unknown = refused(ada.get("environments/nothing"), 404)
    assert refused(ada.get(f"environments/{made['name']}"), 404) == unknown.replace(
        "nothing", made["name"]
    )
    done(grace.post(f"environments/{name}/versions/1/publish", json={}))
    assert made["name"] not in names(grace)


# -- what only some may know ---------------------------------------------------------------------


def test_another_groups_environment_is_as_if_it_were_not_there(
    grace: Caller, ada: Caller, name: str
) -> None:
    created(grace, name, groups=["portal-instructors"])
    done(grace.post(f"environments/{name}/versions/1/publish", json={}))
    known = ("environments", "environments?limit=1")
    assert name not in ada.get(known[0]).text
    for method, path, body in (
        ("GET", "environments/{}", None),
        ("GET", "environments/{}/measurements", None),
        ("PUT", "environments/{}/favourite", {}),
        ("POST", "environments/{}/launch", {}),
    ):
        theirs = ada.request(method, path.format(name), json=body)
        nobodys = ada.request(method, path.format("no-such-one"), json=body)
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.text.replace(name, "X") == nobodys.text.replace("no-such-one", "X")


def test_who_may_not_manage_is_refused_everything_else(ada: Caller, barbara: Caller) -> None:
    """Every operation below environments/ but those for people, whatever the name."""
    people = {
        ("environments", "get"), ("environments/{}", "get"),
        ("environments/{}/measurements", "get"),
        ("environments/{}/launch", "post"), ("environments/{}/favourite", "put"),
        ("environments/{}/favourite", "delete"),
    }  # fmt: skip
    tried = 0
    for endpoint in endpoints():
        if not re.match(r"environments(/|$)", endpoint.path):
            continue
        for method, operation in endpoint.operations.items():
            if (re.sub(r"{\w+}", "{}", endpoint.path), method) in people:
                continue
            assert operation.scope == ENVIRONMENTS_MANAGE, endpoint.path
            path = endpoint.path.format(environment="python-venv", name="python-venv", number="1")
            for caller in (ada, barbara):
                answer = caller.request(method, path, json={} if operation.body else None)
                assert refused(answer, 403).endswith(f"{right(ENVIRONMENTS_MANAGE)}.")
                tried += 1
    assert tried >= 28
    refused(ada.get("environments?all=true"), 403)


def test_paths_groups_and_variables_are_not_for_people(
    grace: Caller, barbara: Caller, name: str
) -> None:
    created(grace, name, groups=["portal-instructors"], binds=[])
    done(grace.post(f"environments/{name}/versions/1/publish", json={}))
    for path in ("environments", f"environments/{name}"):
        text = barbara.get(path).text
        assert name in text
        for hidden in (SECRET, "CUDA_CACHE_PATH", "/opt/hidden-path", "portal-instructors"):
            assert hidden not in text
        assert SECRET not in grace.get("environments?all=true").text
    detail = barbara.get(f"environments/{name}").json()
    assert not {
        "groups", "courses", "path", "image", "modules", "definition", "text", "history", "users",
        "number", "reason", "draft",
    } & set(detail)  # fmt: skip
    managed = grace.get(f"environments/{name}").json()
    assert managed["definition"]["variables"] == {"CUDA_CACHE_PATH": SECRET}
    assert managed["path"] == "/opt/hidden-path"


def test_an_item_has_what_a_tile_needs(ada: Caller, grace: Caller) -> None:
    [item] = [
        one for one in ada.get("environments").json()["items"] if one["name"] == "python-venv"
    ]
    assert {
        "name", "title", "kind", "state", "message", "digest", "kernels", "tags", "description",
        "icon", "gpu_types", "default", "limits", "versions", "favourite", "last_used",
        "tested_at", "private",
    } <= set(item)  # fmt: skip
    assert ada.put("environments/python-venv/favourite").status_code == 204
    assert ada.get("environments/python-venv").json()["favourite"]
    assert not grace.get("environments/python-venv").json()["favourite"]
    assert ada.delete("environments/python-venv/favourite").status_code == 204
    detail = ada.get("environments/python-venv").json()
    assert {"packages", "tests", "measurements", "sessions_now", "added"} <= set(detail)


# -- what bad input gets -------------------------------------------------------------------------

BOMB = "name: x\na: &a [x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n"


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (BOMB, "anchors and aliases", 2),
        ("a: " + "[" * 5000, "nested deeper", 1),
        ("name: x\n" * 20_000, "larger than", None),
        ("!!python/object/apply:os.system [id]", "tags", 1),
        ("name: [\n", "not YAML", 2),
        ("", "empty", 1),
        ("\x01", "not YAML", 1),
        ("name: x\ntitle: x\nkind: venv\npath: /x\nbinds:\n- source: /etc/shadow\n", "never", 6),
        ("name: x\ntitle: x\nkind: venv\npath: /x\nbinds:\n- source: /data/../x\n", "'..'", 6),
        ("name: x\ntitle: x\nkind: venv\npath: /x\nvariables: {LD_PRELOAD: x}\n", "LD_PRELOAD", 5),
        ("name: validate\ntitle: x\nkind: venv\npath: /x\n", "reserved by the portal", 1),
    ],
    ids=str,
)
def test_validate_tells_the_line(grace: Caller, text: str, words: str, line: int | None) -> None:
    problems = done(grace.post("environments/validate", json={"text": text}))["problems"]
    assert words in problems[0]["message"]
    assert problems[0]["line"] == line


def test_validate_gives_both_forms(grace: Caller) -> None:
    by_values = done(grace.post("environments/validate", json={"definition": definition("x")}))
    by_text = done(grace.post("environments/validate", json={"text": by_values["text"]}))
    assert by_values == by_text
    assert by_text["definition"] == definition("x")
    for body in ({}, {"text": "", "definition": {}}, {"text": None}):
        refused(grace.post("environments/validate", json=body), 400)
    wrong = {"kind": "venv", "title": [1], "binds": "x", "": {"a": None}}
    answer = done(grace.post("environments/validate", json={"definition": wrong}))
    assert {problem["field"] for problem in answer["problems"]} >= {"name", "title", "binds", ""}
    assert answer["definition"] == wrong


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"description": "<script>" * 3000}, "description"),
        ({"binds": [{"source": "/etc/shadow"}]}, "never be bound"),
        ({"name": "../x"}, "'name'"),
        ({"name": "request"}, "reserved by the portal"),
        ({"groups": "x"}, "groups"),
        ({"private": True, "owner": "x"}, "private"),
        ({"variables": {"A=B": "x"}}, "variables"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_not_saved(
    grace: Caller, values: dict[str, Any], words: str
) -> None:
    before = names(grace, "?all=true")
    body = {"definition": definition("never-saved") | values}
    assert words in refused(grace.post("environments", json=body), 400)
    assert names(grace, "?all=true") == before


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("versions/9/publish", {}), ("versions/9/preview", None), ("versions/9/build", None),
        ("versions/9/test", {}), ("rollback", {"number": 9}), ("withdraw", {"message": "x"}),
        ("offer-again", None), ("deprecate", {"message": "x"}),
    ],
)  # fmt: skip
def test_what_is_not_there(grace: Caller, path: str, body: Any) -> None:
    refused(grace.post(f"environments/no-such-one/{path}", json=body), 404)


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "x", "9" * 12, "\u0661"])
def test_numbers_that_are_none(grace: Caller, number: str) -> None:
    refused(grace.get(f"environments/python-venv/versions/{number}"), 404)


def test_ten_megabytes_are_refused_in_words(demo: Any, grace: Caller) -> None:
    """Through the proxy and without it, to the end of what is sent."""
    port = json.loads((demo.home.demo / "ports.json").read_text())["service"]
    body = json.dumps({"text": "<script>alert(1)</script>\n" * 400_000})
    assert len(body) > 10 * MIB
    for url in (demo.url, f"http://127.0.0.1:{port}"):
        answer = httpx.post(
            f"{url}{API}environments/validate",
            content=body,
            headers={**grace.headers, "content-type": "application/json"},
            timeout=60,
            trust_env=False,
        )
        assert refused(answer, 413) == "The request is too large. The limit is 1048576 bytes."
    with contextlib.suppress(httpx.HTTPError):
        assert httpx.post(
            f"{demo.url}{API}environments", content=b"x" * 70 * MIB, trust_env=False
        ).status_code >= 400  # fmt: skip
    assert grace.get("environments").status_code == 200


# -- the file system -----------------------------------------------------------------------------


def test_a_folder_that_is_managed_by_hand(demo: Any, grace: Caller, name: str) -> None:
    created(grace, name)
    before = demo.environments.stat()
    if demo.people:  # else it is this account's own
        demo.run(["chown", "root", str(demo.environments)])
    demo.environments.chmod(0o555)
    try:
        answer = grace.post(f"environments/{name}/versions/1/publish", json={})
        assert "is managed by hand" in refused(answer, 409)
        assert answer.json()["error"]["code"] == "catalog_not_writable"
        assert not (demo.environments / f"{name}.yaml").exists()
    finally:
        demo.environments.chmod(before.st_mode & 0o7777)
        demo.run(["chown", str(before.st_uid), str(demo.environments)])
    done(grace.post(f"environments/{name}/versions/1/publish", json={}))
