"""One id from the browser to the job, and the word of /health, in a real portal."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
from hub_client import Person, wait_until

ID = f"browser-{uuid.uuid4()}"


def lines_of(text: str) -> list[str]:
    """Return the lines with the id, whichever the format: those of the Hub, then the service."""
    return [line for line in text.splitlines() if ID in line]


def ask(person: Person, method: str, path: str, **more: Any) -> httpx.Response:
    headers = {"Authorization": f"token {person.token}", "X-Request-ID": ID}
    return httpx.request(method, person.url + path, headers=headers, timeout=60, **more)


def test_one_id_is_in_the_logs_of_service_hub_and_job(demo: Any, ada: Person) -> None:
    ada.api("GET", "/user")
    missing = ask(ada, "POST", "/services/portal/api/v1/sessions/nothing/stop", json={})
    assert missing.headers["X-Request-ID"] == ID, missing.text
    options = {"environment": "python-venv"}
    started = ask(ada, "POST", f"/hub/api{ada.server_path()}", json=options)
    assert started.status_code in (201, 202), started.text
    assert started.headers["X-Request-ID"] == ID
    ada.wait_ready()
    (session,) = [
        item
        for item in ask(ada, "GET", "/services/portal/api/v1/sessions").json()["items"]
        if item["user"] == "ada" and item["ended_at"] is None
    ]
    stopped = ask(ada, "POST", f"/services/portal/api/v1/sessions/{session['id']}/stop", json={})
    assert stopped.status_code == 200, stopped.text
    file = demo.home.log / "hub.out"
    for words in (
        ("JupyterHub", "is submitted"),
        ("/api/v1/sessions/nothing", "portal"),
        ("JupyterHub", "DELETE /hub/api/users/ada"),
    ):
        wait_until(  # an answer may come before its line
            f"the line with {words}",
            lambda words=words: any(
                all(word in line for word in words) for line in lines_of(file.read_text())
            ),
            timeout=20,
        )
    outputs = demo.run(["sh", "-c", f"grep -rl {ID} '{demo.home.root}' --include='*.log'"])
    (job_log,) = outputs.stdout.split()
    first = demo.run(["head", "-n1", job_log]).stdout
    assert first.startswith("Job ") and first.endswith(f"Request {ID}.\n")
    assert ada.token not in file.read_text()


def test_what_is_sent_forges_no_line_and_no_id(demo: Any, ada: Person) -> None:
    bad = ["short", "a" * 65, "with space here", "\u00e9" * 9, "x" * 8 + "\x1b[31m"]
    for text in bad:
        headers = {"X-Request-ID": text.encode()}
        given = httpx.get(f"{ada.url}/hub/health", headers=headers).headers.get("X-Request-ID", "")
        assert given != text and len(given) in (0, 16), text
    httpx.post(
        f"{ada.url}/hub/login", data={"username": "eve\n[I 2026 forged\x1b[2J", "password": "x"}
    )
    name = {"username": "eve\n[I 2026 forged\x1b[2J", "password": "x", "_xsrf": ada.xsrf}
    ada.http.post("/hub/login", data=name)
    log = (demo.home.log / "hub.out").read_text()
    assert "\x1b[2J" not in log
    assert not [line for line in log.splitlines() if line.startswith("[I 2026 forged")]


def test_an_error_page_names_the_request(ada: Person) -> None:
    ada.api("GET", "/user")
    answer = httpx.get(f"{ada.url}/services/portal/api/v1/none", headers={"X-Request-ID": ID})
    assert answer.status_code == 404 and answer.headers["X-Request-ID"] == ID
    assert "request_id" not in answer.json()["error"]  # nothing failed
    page = ada.http.get("/hub/no-such-page")
    assert page.status_code == 404 and "does not exist" in page.text


def test_everybody_reads_the_word_and_admins_the_parts(demo: Any, ada: Person, person: Any) -> None:
    url = f"{ada.url}/services/portal/health"
    word = httpx.get(url)
    assert word.status_code == 200
    assert word.json().keys() == {"status"} and word.json()["status"] in ("ok", "degraded")
    ada.api("GET", "/user")
    grace = person("grace")
    grace.api("GET", "/user")
    assert httpx.get(url, headers={"Authorization": f"token {ada.token}"}).json() == word.json()
    told = httpx.get(url, headers={"Authorization": f"token {grace.token}"}).json()
    parts = {part["part"]: part for part in told["parts"]}
    assert {"Slurm", "Hub", "Database", "Directory", "Disk of the database"} <= parts.keys()
    assert parts["Slurm"]["ok"] and parts["Hub"]["ok"] and parts["Database"]["words"] == ""
    assert (told["status"] == "ok") == all(part["ok"] for part in told["parts"])
    assert json.dumps(told).isascii() and grace.token not in json.dumps(told)
