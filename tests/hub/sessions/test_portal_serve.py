"""portal-serve in a terminal of a real session: from a folder to an answer, and its errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_client import Caller
from conftest import ROOT
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from terminal import terminal

NAME = "digits"
PAGE = (ROOT / "docs/how-to/serve-a-model.md").read_text()
PROGRAM = re.findall(r"```python\n(.*?)```", PAGE, re.S)[0]
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    for line in block.splitlines()
    if NAME in line and "curl" not in line
]


@pytest.fixture(scope="module")
def ada(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada in a session, with a program to serve."""
    nothing_left(demo, "ada")
    options = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}
    for ada in with_session(person("ada"), options):
        terminal(ada, f"mkdir -p {NAME}")
        model = {"type": "file", "format": "text", "content": PROGRAM}
        assert ada.session("PUT", f"api/contents/{NAME}/serve.py", json=model).is_success
        yield ada
    with Caller(demo.url, "ada") as caller:
        caller.delete(f"models/{NAME}")
    nothing_left(demo, "ada")


def serve(ada: Person, words: str) -> str:
    return terminal(ada, f"portal-serve {words}")


def test_the_commands_of_the_page_serve_a_program(demo: Any, ada: Person) -> None:
    wait_until("the portal knows the session", lambda: "NAME" in said_list(ada), 30)
    write, served, show, share, private, second, half, back, delete = COMMANDS
    terminal(ada, write)
    said = terminal(ada, served)
    assert said.startswith("Version 1: "), said
    assert f"Address: {demo.url}/services/portal/models/{NAME}/" in said, said
    curl = said[said.index("curl") :]
    with Caller(demo.url, "ada") as caller:
        environ = {**os.environ, "TOKEN": str(caller.person.token), "no_proxy": "*"}
        answered = subprocess.run(
            ["bash", "-c", curl], capture_output=True, text=True, timeout=60, env=environ
        )
        assert json.loads(answered.stdout) == {"result": 6}, answered
        assert caller.get(said.split()[said.split().index("Address:") + 1]).status_code == 404

        def detail() -> dict[str, Any]:
            return dict(caller.get(f"models/{NAME}").json())

        version = detail()["versions"][0]
        assert version["folder"].endswith(f"/{NAME}") and version["source"]["folder"]
        assert version["environment"] == "python-venv", "the session's"
        shown = terminal(ada, show)
        assert "100 %" in shown and "ready" in shown, shown

        terminal(ada, share)
        assert detail()["users"] == ["barbara"]
        assert detail()["groups"] == ["course-deep-learning-101"]
        terminal(ada, private)
        assert (detail()["users"], detail()["groups"]) == ([], [])

        assert "Address:" in terminal(ada, second)
        assert {each["number"]: each["share"] for each in detail()["versions"]} == {1: 90, 2: 10}
        assert "is divided" in terminal(ada, half)
        assert {each["share"] for each in detail()["versions"]} == {50}
        terminal(ada, back)
        assert {each["number"]: each["share"] for each in detail()["versions"]} == {1: 100, 2: 0}
        assert "was deleted" in terminal(ada, delete)
        assert caller.get(f"models/{NAME}").status_code == 404
    assert NAME not in serve(ada, "list")


def said_list(ada: Person) -> str:
    text = serve(ada, "list")
    return "NAME" if "You have no endpoints" in text or "OWNER" in text else text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "usage: portal-serve NAME"),
        ("other", "Nothing to serve or to change is named."),
        ("other --least 1", "You have no endpoint 'other'."),
        ("other --model nobodys", "There is no model 'nobodys' in the catalog"),
        ("other --run nobodys -- a {socket}", "You have no run 'nobodys'."),
        ("other --folder /nowhere -- a {socket}", "There is no folder '/nowhere'."),
        ("other --folder digits -- python app.py", "'command' must listen on '{socket}'"),
        ("other --folder digits --gpus 4000 -- a {socket}", "GPU"),
        ("other --cpus 1", "A version needs a command"),
        ("other --example x -- a {socket}", "'--example' must be a JSON object"),
        ("other --private --everyone --model x", "exclude each other"),
        ("Other --model x", "is no name of an endpoint"),
        ("show ../runs", "is no name of an endpoint"),
        ("show nobodys", "You have no such endpoint."),
        ("shares other 1:2", "Write VERSION=PERCENT"),
        ("delete", "Write: portal-serve delete NAME"),
    ],
)
def test_errors_are_sentences(ada: Person, words: str, sentence: str) -> None:
    said = serve(ada, words)
    assert sentence in said and "Traceback" not in said, said
    assert words == "" or said.startswith("portal-serve: "), said
    assert "other" not in serve(ada, "list"), "nothing is left of it"
