"""From a run's best point to an answer, as a data scientist goes there: served from the run's page,
asked in the browser and with curl, a further version with a share, and back by a click."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from looks import check
from sign_in import sign_in
from terminal import terminal

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

LONG = 300_000  # milliseconds: jobs start, and a replica takes over
NAME = "slopes"
# Trains a line, and writes its slope and the program that serves it into the point's folder.
TRAIN = """
import argparse, json, os, shutil
from portal_metrics import log
given = argparse.ArgumentParser()
given.add_argument("--rate", type=float)
rate, slope = given.parse_args().rate, 0.0
for step in range(50):
    slope -= rate * 2 * (slope - 3)
    log(loss=(slope - 3) ** 2, step=step)
place = os.path.dirname(os.environ["PORTAL_METRICS"])
json.dump({"slope": slope}, open(os.path.join(place, "model.json"), "w"))
shutil.copy("serve.py", place)
"""
SERVE = """
import json, sys
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingUnixStreamServer
slope = json.load(open("model.json"))["slope"]
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_message = lambda *_: None
    def do_GET(self, **said):
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        x = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["x"]
        self.do_GET(y=round(slope * x, 3))
ThreadingUnixStreamServer.request_queue_size = 64
ThreadingUnixStreamServer(sys.argv[1], Handler).serve_forever()
"""
# Of the rates, the first has not come far, and the second is best.
RUN = "portal-run serving/train.py --set rate=0.001,0.3 --cpus 1 --memory 512M --time 0:10:00"


@pytest.fixture(scope="module")
def ada(demo: Any) -> Iterator[Person]:
    """Ada in a session, with a run of two points that have written models."""
    nothing_left(demo, "ada")
    person = Person(demo.url, "ada")
    for _ in with_session(person, {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}):
        terminal(person, "rm -rf serving; mkdir serving")
        for name, text in (("train", TRAIN), ("serve", SERVE)):
            model = {"type": "file", "format": "text", "content": text}
            assert person.session("PUT", f"api/contents/serving/{name}.py", json=model).is_success
        assert "2 points" in terminal(person, RUN)
        yield person
        with Caller(demo.url, "ada") as caller:
            caller.delete(f"models/{NAME}")
        terminal(person, "rm -rf serving")
    nothing_left(demo, "ada")


def fill_resources(dialog: Any) -> None:
    dialog.get_by_label("GPUs", exact=True).fill("0")
    dialog.get_by_label(re.compile("^Time limit, from")).fill("0:30:00")
    dialog.get_by_text("More: CPUs").click()
    dialog.get_by_label("CPUs", exact=True).fill("1")
    dialog.get_by_label("Memory", exact=True).fill("400M")


def trial(page: Any) -> Any:
    """Send what stands in the form; return its answer, with success."""
    page.get_by_role("button", name="Send request").click()
    answer = page.locator("#trial-answer")
    expect(answer).to_contain_text("Answer · status 200", timeout=LONG)
    return json.loads(answer.locator("pre").inner_text())


def curl(demo: Any, token: str, x: float) -> float:
    address = f"{demo.url}/services/portal/models/{NAME}/line"
    words = ["curl", "-sS", "--noproxy", "*", "-d", json.dumps({"x": x}), address]
    kind = ["-H", "Content-Type: application/json", "-H", f"Authorization: Bearer {token}"]
    done = subprocess.run([*words, *kind], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return float(json.loads(done.stdout)["y"])


def test_from_the_best_point_to_an_answer(demo: Any, ada: Person, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs")
    page.locator("#list").get_by_role("link", name="train", exact=True).first.click()
    expect(page.locator("#run")).to_contain_text("2 of 2 succeeded", timeout=LONG)
    expect(page.locator("#best")).to_contain_text("Point 1")
    page.get_by_role("button", name="More actions for train").click()
    page.get_by_role("button", name="Serve best point…").click()
    dialog = page.get_by_role("dialog", name="Serve a model")
    expect(dialog.get_by_label("Point", exact=True)).to_have_value("1")
    expect(dialog.get_by_label("Folder", exact=True)).to_have_value("~/serving/runs/train/0001")
    expect(dialog.get_by_label("Environment", exact=True)).to_have_value("python-venv")
    dialog.get_by_label("Name", exact=True).fill(NAME)
    fill_resources(dialog)
    dialog.get_by_label("Replicas at least").fill("1")
    dialog.get_by_text("More: health").click()
    dialog.get_by_label("Path of the example").fill("/line")
    dialog.get_by_label("Body of the example").fill('{"x": 1}')
    check(page, "serve-dialog")
    dialog.get_by_label("Command").fill("{python} serve.py 8000")
    dialog.get_by_role("button", name="Serve model").click()
    expect(dialog).to_contain_text("'command' must listen on '{socket}'")
    dialog.get_by_label("Command").fill("{python} serve.py {socket}")
    dialog.get_by_role("button", name="Serve model").click()

    expect(page.get_by_role("heading", level=1)).to_have_text(NAME, timeout=LONG)
    expect(page.locator("#model .state")).to_contain_text("ready", timeout=LONG)
    version = page.locator("#versions tbody tr")
    expect(version).to_contain_text("Point 1 of train")
    expect(version).to_contain_text("rate 0.3")
    expect(version).to_contain_text("100 %")
    assert trial(page) == {"y": 3.0}
    with Caller(demo.url, "ada") as caller:
        assert curl(demo, caller.person.token, 2) == 6.0
    words = page.locator("#ask").get_by_role("region", name="curl").inner_text()
    assert f"{demo.url}/services/portal/models/{NAME}/line" in words and "TOKEN" in words
    page.get_by_label("Body (JSON)").fill("[1]")
    page.get_by_role("button", name="Send request").click()
    expect(page.locator("#ask [role=alert]")).to_contain_text("must be a JSON object")
    check(page, "model")


def test_a_further_version_gets_a_share_and_all_goes_back_by_a_click(
    demo: Any, ada: Person, page: Any
) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/endpoints")
    page.locator("#list").get_by_role("link", name=NAME).click()
    page.get_by_role("button", name="Add a version…").click()
    dialog = page.get_by_role("dialog", name=f"Add a version to {NAME}")
    dialog.get_by_label("From", exact=True).select_option("A point of a run")
    expect(dialog.get_by_label("Folder", exact=True)).to_have_value("~/serving/runs/train/0000")
    fill_resources(dialog)
    dialog.get_by_text("More: health").click()
    dialog.get_by_label("Path of the example").fill("/line")
    dialog.get_by_label("Body of the example").fill('{"x": 1}')
    dialog.get_by_label("Share of the traffic").fill("40")
    dialog.get_by_role("button", name="Add version").click()
    rows = page.locator("#versions tbody tr")
    expect(rows).to_have_count(2, timeout=LONG)
    expect(rows.nth(0)).to_contain_text("Point 0 of train")
    expect(rows.nth(0)).to_contain_text("40 %")
    expect(rows.nth(1)).to_contain_text("60 %")
    ready = page.locator("#replicas tbody tr").filter(has_text="ready")
    expect(ready).to_have_count(2, timeout=LONG)
    with Caller(demo.url, "ada") as caller:
        answers = [curl(demo, caller.person.token, 1) for _ in range(60)]
        assert set(answers) == {0.286, 3.0}, answers  # the two slopes

        rows.nth(1).get_by_role("button", name="Send all traffic here").click()
        page.get_by_role("button", name="Send all traffic", exact=True).click()
        expect(rows.nth(1)).to_contain_text("100 %", timeout=LONG)
        expect(ready).to_have_count(1, timeout=LONG)
        wait_until(
            "the gateway knows it",
            lambda: {curl(demo, caller.person.token, 1) for _ in range(20)} == {3.0},
        )

    page.get_by_label("Time", exact=True).select_option("Last hour")
    expect(page.locator("#figures-words")).to_have_text(re.compile(r"^\d+ requests"), timeout=LONG)
    expect(page.locator("#figures canvas").first).to_be_visible()
    check(page, "model-two-versions")

    # Grace is no user of it, sees it as an admin, and deletes it with a reason.
    sign_in(page, demo.url, "grace")
    page.goto(f"{demo.url}/services/portal/endpoints?all=true")
    page.locator("#list").get_by_role("link", name=NAME).click()
    expect(page.locator("#ask")).to_contain_text("You may not use this model")
    check(page, "model-admin")
    page.get_by_role("button", name=f"More actions for {NAME}").click()
    page.get_by_role("button", name="Delete model…").click()
    page.get_by_label("Reason").fill("nobody asks it")
    page.get_by_role("button", name="Delete model", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Models")
    with Caller(demo.url, "grace") as grace:
        (entry,) = grace.get("audit", params={"action": "delete-endpoint", "limit": 1}).json()[
            "items"
        ]
        assert entry["owner"] == "ada" and "nobody asks it" in entry["detail"], entry
