"""portal-serve in a terminal of a real session: from a folder to an answer, and its errors."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from terminal import terminal

NAME = "terminal-echo"
PROGRAM = """
import json, os, sys
from http.server import BaseHTTPRequestHandler as Base
from socketserver import ThreadingUnixStreamServer as Server
class Handler(Base):
    protocol_version = "HTTP/1.1"
    log_message = lambda *_: None
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
    def do_GET(self):
        body = json.dumps({"said": open("word.txt").read().strip()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
Server(sys.argv[1], Handler).serve_forever()
"""
EXAMPLE = shlex.quote(
    json.dumps({"method": "POST", "path": "/v1/say", "body": {"say": "it's"}, "contains": "said"})
)


@pytest.fixture(scope="module")
def ada(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada in a session, with a program to serve."""
    nothing_left(demo, "ada")
    options = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}
    for ada in with_session(person("ada"), options):
        content = {"type": "file", "format": "text"}
        terminal(ada, "mkdir -p served")
        for name, text in (("serve.py", PROGRAM), ("word.txt", "first")):
            model = {**content, "content": text}
            assert ada.session("PUT", f"api/contents/served/{name}", json=model).is_success
        yield ada
    with Caller(demo.url, "ada") as caller:
        caller.delete(f"models/{NAME}")
    nothing_left(demo, "ada")


def serve(ada: Person, words: str) -> str:
    return terminal(ada, f"portal-serve {words}")


def test_a_folder_is_served_and_asked_by_the_printed_curl(demo: Any, ada: Person) -> None:
    wait_until("the portal knows the session", lambda: "NAME" in said_list(ada), 30)
    said = serve(
        ada,
        f"{NAME} --folder served --path /v1/ --cpus 1 --memory 400M --time 0:30:00 --least 1 "
        f"--example {EXAMPLE} -- {{python}} serve.py {{socket}}",
    )
    assert said.startswith("Version 1: "), said
    assert f"Address: {demo.url}/services/portal/models/{NAME}/" in said, said
    curl = said[said.index("curl") :]
    with Caller(demo.url, "ada") as caller:
        environ = {**os.environ, "TOKEN": str(caller.person.token), "no_proxy": "*"}
        answered = subprocess.run(
            ["bash", "-c", curl], capture_output=True, text=True, timeout=60, env=environ
        )
        assert json.loads(answered.stdout) == {"said": "first"}, answered
        detail = caller.get(f"models/{NAME}").json()
    version = detail["versions"][0]
    assert version["folder"].endswith("/served") and version["source"]["folder"]
    assert version["environment"] == "python-venv", "the session's"

    shown = serve(ada, f"show {NAME}")
    assert "100 %" in shown and "ready" in shown, shown
    said = serve(
        ada, f"{NAME} --folder served --share 10 --no-wait -- {{python}} serve.py {{socket}}"
    )
    assert "Address:" in said, said
    assert "10 %" in serve(ada, f"show {NAME}")
    assert "is divided" in serve(ada, f"shares {NAME} 1=100")
    assert "Address:" in serve(ada, f"{NAME} --everyone")
    with Caller(demo.url, "ada") as caller:
        assert caller.get(f"models/{NAME}").json()["everyone"] is True
    assert "was deleted" in serve(ada, f"delete {NAME}")
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
        ("other --folder served -- python app.py", "'command' must listen on '{socket}'"),
        ("other --folder served --gpus 4000 -- a {socket}", "GPU"),
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
