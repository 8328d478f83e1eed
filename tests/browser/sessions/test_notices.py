"""Notices of the browser: asked for with a click, told once, and a page that says it itself."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, without_session
from jobs import cpu_nodes_held
from lab_page import log_in
from looks import violations

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

# The browser's own notices cannot be seen by a test: what the page would show is written down.
STUB = """
// The blank page before a sign-in has no storage.
if (location.protocol !== "about:") {
window.shown = [];
window.Notification = class {
  static permission = sessionStorage.getItem("permission") ?? "default";
  static async requestPermission() {
    window.Notification.permission = "ANSWER";
    sessionStorage.setItem("permission", "ANSWER");
    return "ANSWER";
  }
  constructor(title, options) { window.shown.push([title, options.body]); }
  close() {}
};
}
"""
OPTIONS = {"environment": "python-venv", "partition": "cpu", "time": "0:30:00"}


@pytest.fixture
def ada(demo: Any) -> Iterator[Person]:
    yield from without_session(Person(demo.url, "ada"))


def hide(page: Any, hidden: bool) -> None:
    """What the page sees when another tab is before it."""
    page.evaluate(
        """(hidden) => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_waiting_session_tells_a_page_in_the_background(
    demo: Any, ada: Person, page: Any
) -> None:
    page.add_init_script(STUB.replace("ANSWER", "granted"))
    log_in(page, demo)
    page.wait_for_url("**/hub/**")
    with cpu_nodes_held(demo) as taken:
        assert ada.launch(OPTIONS).status_code in (201, 202)
        page.goto(f"{demo.url}/hub/spawn-pending/ada")
        button = page.get_by_role("button", name="Notify me when it starts")
        expect(button).to_be_visible()
        assert page.evaluate("Notification.permission") == "default"  # nobody was asked yet
        assert violations(page) == []
        button.click()
        expect(page.locator("#notices-words")).to_contain_text("this browser notifies you")
        expect(page.locator("#notices-on")).to_have_attribute("aria-pressed", "true")
        page.wait_for_function("localStorage.getItem('portal-notices').includes('true')")

        hide(page, True)
        demo.run(["scancel", *taken], user=demo.user("barbara"))
    page.wait_for_function("window.shown.length > 0")
    ((title, body),) = page.evaluate("window.shown")
    assert title == "Your session has started"
    assert body
    # Back on the page, it leads into the session.
    hide(page, False)
    page.wait_for_url("**/user/ada/**")


def a_session(demo: Any, **changes: Any) -> dict[str, Any]:
    now = changes.pop("now")
    given = {
        "id": "made-up",
        "mine": True,
        "user": "ada",
        "server": "<b>x</b>",
        "environment": "jupyterlab",
        "environment_title": "JupyterLab",
        "state": "pending",
        "ends_at": None,
        "nodes": [],
        "options": {},
        "links": {"open": None, "launch_again": None, "launch_suggested": None},
        "submitted_at": now - 60,
        "words": "waiting",
        "efficiency": {"gpus": 0, "gpu_hours_held": None, "memory_peak": None, "time_used": None},
    }
    return {**given, **changes}


def test_each_thing_is_told_once_in_all_pages(demo: Any, ada: Person, page: Any) -> None:
    """The API's list is played by the test here: a start, an end, an extended one."""
    page.add_init_script(STUB.replace("ANSWER", "granted"))
    page.clock.install()
    sessions: list[dict[str, Any]] = []
    page.context.route(
        re.compile(r"/api/v1/sessions\?.*ended=false"),
        lambda route: route.fulfill(
            content_type="application/json",
            body=json.dumps({"items": sessions, "total": len(sessions), "next": None}),
        ),
    )
    log_in(page, demo)
    page.wait_for_url("**/hub/**")
    page.goto(f"{demo.url}/services/portal/")
    page.evaluate("localStorage.setItem('portal-notices', JSON.stringify({ on: true }))")
    page.evaluate("sessionStorage.setItem('permission', 'granted')")
    now = page.evaluate("Date.now() / 1000")
    sessions[:] = [a_session(demo, now=now)]
    with page.expect_response(re.compile("ended=false")):  # its first look
        page.reload()

    def looks(count: int) -> list[Any]:
        for _ in range(20):
            page.clock.run_for(16_000)
            if len(page.evaluate("window.shown")) >= count:
                break
        for _ in range(2):  # and no more than that
            page.clock.run_for(16_000)
        return list(page.evaluate("window.shown"))

    assert looks(0) == []
    at = page.evaluate("Date.now() / 1000")
    open_ = {"open": "/user/ada/", "launch_again": None, "launch_suggested": None}
    running = a_session(demo, now=at, state="running", links=open_, ends_at=at + 7200)
    sessions[:] = [running]
    assert looks(1) == [["Your session has started", "JupyterLab <b>x</b> is ready."]]
    sessions[:] = [{**running, "ends_at": page.evaluate("Date.now() / 1000") + 800}]
    told = looks(2)
    assert [title for title, _ in told] == ["Your session has started", "Your session ends soon"]
    assert "Save your work" in told[1][1]
    sessions[:] = [{**running, "ends_at": page.evaluate("Date.now() / 1000") + 850}]  # extended
    assert len(looks(3)) == 3
    page.reload()
    assert looks(1) == []


def test_a_browser_that_refuses_gets_it_on_the_page(demo: Any, ada: Person, page: Any) -> None:
    page.add_init_script(STUB.replace("ANSWER", "denied"))
    log_in(page, demo)
    page.wait_for_url("**/hub/**")
    waits = a_session(demo, now=time.time(), server="")
    page.route(
        re.compile(r"/api/v1/sessions\?.*ended=false"),
        lambda route: route.fulfill(
            content_type="application/json",
            body=json.dumps({"items": [waits], "total": 1, "next": None}),
        ),
    )
    page.goto(f"{demo.url}/services/portal/sessions")
    page.get_by_role("button", name="Notify me when it starts").click()
    expect(page.locator("#notices-words")).to_contain_text("blocks notifications from this site")
    usual = page.title()
    hide(page, True)
    page.evaluate(
        """async () => {
          const { src } = [...document.scripts].find((one) => one.src.endsWith("notices.js"));
          const { tellStarted } = await import(src.replace("notices.js", "notify.js"));
          tellStarted("", "It runs.", "/user/ada/");
        }"""
    )
    expect(page.locator("#notices-told")).to_contain_text("Your session has started")
    expect(page).to_have_title("● Your session has started")
    assert page.evaluate("window.shown") == []
    hide(page, False)
    expect(page).to_have_title(usual)
    page.get_by_role("button", name="Turn off notifications").click()
    expect(page.locator("#notices-on")).to_have_text("Notify me when it starts")


def test_the_wish_for_mail(demo: Any, ada: Person, page: Any) -> None:
    """Offered where the site sends mail; the demo has no mail server, so the answer is played."""
    wishes: list[Any] = []

    def answer(route: Any) -> None:
        if route.request.method == "PUT":
            wishes.append(route.request.post_data_json)
        mail = bool(wishes and wishes[-1]["mail"])
        words = {"available": True, "mail": mail, "before_end": 900}
        route.fulfill(content_type="application/json", body=json.dumps(words))

    log_in(page, demo)
    page.wait_for_url("**/hub/**")
    with page.expect_response("**/api/v1/notices*"):
        page.goto(f"{demo.url}/services/portal/sessions")
    expect(page.locator("#living")).to_contain_text("No session is running or waiting")
    # Nothing waits, so there is nothing to be notified of.
    expect(page.get_by_role("button", name="Notify me when it starts")).to_be_hidden()
    assert page.get_by_label("Send me mail about my sessions").count() == 0
    page.route("**/api/v1/notices*", answer)
    page.reload()
    box = page.get_by_label("Send me mail about my sessions")
    box.check()
    expect(page.locator("#notices-words")).to_contain_text("You get mail when")
    assert wishes == [{"mail": True}]
    box.uncheck()
    expect(page.locator("#notices-words")).to_contain_text("You get no mail")
