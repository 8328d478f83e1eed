"""The extension of JupyterLab in a real session of the demo: time, GPUs and memory in view,
warnings before the end, extending and saving. What cannot be had on purpose (idle GPUs, a hostile
word of the portal, a cut network) is put in the place of the answer of the session's server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, with_session
from jobs import only_job
from lab_page import palette
from looks import take_picture, violations
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

WHO = "student07"
SITUATION = "**/portal/situation*"
HOSTILE = '<img src=x onerror="window.hacked=1"> & 100 %s ${1+1} \u202egnp.exe'


@pytest.fixture(scope="module")
def owner(demo: Any) -> Iterator[Person]:
    """Someone whose session, with two GPUs, has eight minutes to live."""
    someone = Person(demo.url, WHO)
    options = {"environment": "python-venv", "gpus": 2, "gpu_type": "v100", "time": "0:08:00"}
    for _ in with_session(someone, options):
        wait_until(
            "the portal tells the session how it stands",
            lambda: someone.session("GET", "portal/situation").json()["situation"],
        )
        yield someone


@pytest.fixture
def lab(demo: Any, owner: Person, page: Any) -> Any:
    """The page of conftest.py, logged in; ``open_lab`` goes on from there."""
    page.set_viewport_size({"width": 1300, "height": 850})
    sign_in(page, demo.url, WHO)
    return page


def open_lab(page: Any, demo: Any) -> Any:
    """JupyterLab with nothing open; the item in its status bar."""
    page.goto(f"{demo.url}/user/{WHO}/lab?reset")
    item = page.locator(".portal-StatusItem button")
    expect(item).to_contain_text("left")
    return item


def open_panel(page: Any) -> Any:
    page.locator(".portal-StatusItem button").click()
    panel = page.locator("#portal-session-panel")
    expect(panel.get_by_role("heading", name="This session")).to_be_visible()
    return panel


def toast(page: Any, words: str) -> Any:
    return page.locator(".Toastify__toast", has_text=words)


def commands(page: Any, words: str) -> Any:
    """What the command palette finds for ``words``."""
    palette(page, words)
    found = page.locator(".lm-CommandPalette-itemLabel")
    expect(found.first).to_have_text(re.compile(words.split(":")[0]))
    return found


def look_again(page: Any) -> None:
    """As somebody does who comes back to the tab: the page asks at once."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


class Told:
    """``told(ends_at=…)``: what the portal says of the session from now on. ``now``: its clock."""

    def __init__(self, page: Any, answer: dict[str, Any]) -> None:
        self._page, self._answer = page, answer
        self.now: float = answer["situation"]["now"]
        self.gpu: dict[str, Any] = answer["situation"]["gpus"][0]

    def __call__(self, **changes: Any) -> None:
        situation = {**self._answer["situation"], **changes}
        self.raw(json.dumps({**self._answer, "age": 0, "error": "", "situation": situation}))

    def raw(self, body: str | None) -> list[int]:
        """None: the network is cut."""
        asked: list[int] = []

        def answer(route: Any) -> None:
            asked.append(1)
            if body is None:
                route.abort()
            else:
                route.fulfill(body=body)

        self.nothing_more()
        self._page.route(SITUATION, answer)

        look_again(self._page)
        return asked

    def heard(self, body: str | None) -> None:
        """``raw``, and wait until the page has asked: one that is asking already asks no more."""
        asked = self.raw(body)

        def look() -> Any:
            look_again(self._page)
            self._page.wait_for_timeout(50)
            return asked

        wait_until("the page asks", look)

    def nothing_more(self) -> None:
        """The session's server itself answers again."""
        self._page.unroute(SITUATION)


@pytest.fixture
def told(owner: Person, lab: Any) -> Told:
    return Told(lab, owner.session("GET", "portal/situation").json())


def test_it_is_installed_and_on(owner: Person) -> None:
    page = owner.session("GET", "lab").text
    data = re.search(r'(?s)<script id="jupyter-config-data"[^>]*>(.*?)</script>', page)
    assert data
    names = [one["name"] for one in json.loads(data[1])["federated_extensions"]]
    assert "@data-scientist-portal/session" in names


def test_time_gpus_and_memory_are_in_view(demo: Any, lab: Any) -> None:
    item = open_lab(lab, demo)
    gpu = r"GPU( \(simulated\))? \d+ % · GPU memory [\d.]+ of \d+ GiB"
    expect(item).to_have_text(re.compile(rf"^\d+ min left · {gpu} · Memory [\d.]+ of 4 GiB$"))
    assert ("(simulated)" in item.inner_text()) == demo.words["simulated_gpus"]
    # With the keyboard, and read aloud.
    expect(item).to_have_attribute("aria-label", re.compile(r"^Session: \d+ min left, GPU"))
    item.focus()
    lab.keyboard.press("Enter")
    panel = lab.locator("#portal-session-panel")
    expect(panel).to_contain_text("2 GPUs v100, 2 CPUs, 4 GiB of memory")
    expect(panel).to_contain_text(re.compile(r"GPU \d: \d+ % busy, [\d.]+ of 32 GiB"))
    expect(panel.get_by_role("img")).to_have_count(3)
    session = panel.get_by_role("link", name="This session in the portal")
    assert lab.request.get(session.evaluate("a => a.href")).ok
    found = []
    for theme in ("Light", "Dark"):
        commands(lab, f"Theme: JupyterLab {theme}")
        lab.keyboard.press("Enter")
        expect(lab.locator("body")).to_have_attribute(
            "data-jp-theme-light", "true" if theme == "Light" else "false"
        )
        take_picture(lab, f"lab-session-{theme.lower()}")
        for place in ("#portal-session-panel", ".portal-StatusItem"):
            found += [f"{theme}: {one}" for one in violations(lab, place)]
    assert not found, "\n".join(found)


def test_the_warning_saves_all_and_extends(demo: Any, owner: Person, lab: Any) -> None:
    item = open_lab(lab, demo)
    warning = toast(lab, "This session ends in")
    expect(warning).to_have_count(1)
    lab.locator(".jp-LauncherCard", has_text="Text File").click()
    lab.locator(".cm-content").click()
    lab.keyboard.type("not saved yet")
    expect(lab.locator(".lm-TabBar-tab.jp-mod-dirty")).to_have_count(1)
    warning.get_by_role("button", name="Save all").click()
    expect(lab.locator(".lm-TabBar-tab.jp-mod-dirty")).to_have_count(0)
    files = owner.session("GET", "api/contents/").json()["content"]
    (name,) = [one["path"] for one in files if one["path"].startswith("untitled")]
    assert owner.session("GET", f"api/contents/{name}").json()["content"] == "not saved yet"
    owner.session("DELETE", f"api/contents/{name}")
    # It is still there, since the end still comes.
    warning.get_by_role("button", name="Extend").click()
    dialog = lab.get_by_role("dialog")
    choices = dialog.get_by_role("combobox")
    words = re.compile(r"^30 min, until (\w+ \d+, )?\d\d:\d\d$")  # tomorrow with its date
    longer = choices.locator("option", has_text=words)
    choices.select_option(longer.inner_text())
    dialog.get_by_role("button", name="Extend").click()
    expect(toast(lab, "This session now ends at")).to_be_visible()
    expect(item).to_contain_text(re.compile(r"^3\d min left"))
    expect(warning).to_have_count(0)
    limit = demo.run(["squeue", "-h", "-o", "%l", "-j", only_job(demo, WHO)]).stdout.strip()
    assert limit == "38:00"
    # From the palette too.
    found = commands(lab, "Portal: ")
    for words in ("Portal: Extend session", "Portal: Save all", "Portal: Show session panel"):
        expect(found.filter(has_text=words)).to_be_visible()


def test_each_end_is_warned_of_once_whatever_the_browsers_clock_says(
    demo: Any, lab: Any, told: Told
) -> None:
    """The browser's clock is a year ahead."""
    lab.add_init_script("Date.now = (now => () => now() + 3.2e10)(Date.now)")
    told(ends_at=told.now + 3600 + 30)
    item = open_lab(lab, demo)
    expect(item).to_contain_text("1 h left")
    expect(toast(lab, "This session ends in")).to_have_count(0)
    told(ends_at=told.now + 14.5 * 60)
    expect(toast(lab, "ends in 14 min")).to_have_count(1)
    toast(lab, "ends in 14 min").get_by_role("button", name="Hide notification").click()
    expect(toast(lab, "ends in")).to_have_count(0)
    told(ends_at=told.now + 14 * 60 + 5)  # the same end: Slurm counts in minutes
    expect(item).to_contain_text("14 min left")
    expect(toast(lab, "ends in")).to_have_count(0)
    reason = "It may run for 8 h at most."
    told(
        ends_at=told.now + 4.5 * 60,
        extend={"allowed": False, "minutes": [], "latest_end": None, "reason": reason},
    )
    last = toast(lab, "ends in 4 min")
    expect(last).to_contain_text(reason)
    expect(last.get_by_role("button", name="Extend")).to_have_count(0)
    expect(open_panel(lab)).to_contain_text(reason)


def test_idle_gpus(demo: Any, lab: Any, told: Told) -> None:
    asked = []
    lab.route(
        "**/portal/snooze*",
        lambda route: (asked.append(route.request.post_data), route.fulfill(json={}))[1],
    )
    idle = {
        "mode": "on",
        "idle_since": told.now - 1500,
        "warned": True,
        "stops_at": told.now + 300,
        "save_at": None,
        "snoozed_until": None,
        "exempt": "",
        "unknown": "",
        "limit": 1800,
        "snooze": 3600,
        "snoozes_left": 3,
    }
    far = told.now + 7200
    told(ends_at=far, idle=idle)
    open_lab(lab, demo)
    warning = toast(lab, "have been idle since")
    expect(warning).to_contain_text("The session stops at")
    assert asked == []
    warning.get_by_role("button", name="Keep session").click()
    wait_until("the portal hears of it", lambda: lab.wait_for_timeout(50) or asked == ["{}"])
    expect(warning).to_have_count(0)  # it goes slowly; the next one is another
    told(ends_at=far, idle={**idle, "stops_at": told.now + 900})
    expect(warning).to_have_count(1)
    told(ends_at=far, idle={**idle, "warned": False, "idle_since": None, "stops_at": None})
    expect(warning).to_have_count(0)


def test_foreign_text_stays_text(demo: Any, lab: Any, told: Told) -> None:
    told(
        ends_at=told.now + 7200,
        hint=HOSTILE,
        environment_title=HOSTILE,
        announcements=[
            {"id": 7, "text": HOSTILE, "level": "warning", "ends_at": told.now + 3600},
            {"id": 8, "text": "x" * 2000, "level": "info", "ends_at": told.now + 3600},
        ],
        links={"session": "javascript:window.hacked=1", "cluster": "/services/portal/"},
        error="Slurm does not answer.",
        gpus=[{**told.gpu, "utilization": None, "memory_used": None}],
    )
    item = open_lab(lab, demo)
    expect(item).to_contain_text("unknown · GPU memory unknown of 32 GiB")
    expect(toast(lab, HOSTILE)).to_have_count(1)
    toast(lab, "xxx").get_by_role("button", name="Read all").click()
    panel = lab.locator("#portal-session-panel")
    expect(panel.get_by_role("listitem").filter(has_text="x" * 2000)).to_be_visible()
    expect(panel.locator(".portal-mod-hint")).to_have_text(HOSTILE)
    expect(panel).to_contain_text("Slurm does not answer.")
    expect(panel.get_by_role("link")).to_have_count(1)
    assert panel.locator("img").count() == 0
    assert lab.evaluate("window.hacked") is None
    # Each announcement once, also after a reload; the new one comes after the old one's turn.
    old = {"id": 7, "text": HOSTILE, "level": "warning", "ends_at": told.now + 3600}
    lab.goto("about:blank")
    told(ends_at=told.now + 7200, announcements=[old, {**old, "id": 9, "text": "A new one"}])
    open_lab(lab, demo)
    expect(toast(lab, "A new one")).to_have_count(1)
    expect(toast(lab, HOSTILE)).to_have_count(0)


def test_lab_works_on_while_nobody_answers(demo: Any, lab: Any, told: Told) -> None:
    told(ends_at=told.now + 7200)
    item = open_lab(lab, demo)
    panel = open_panel(lab)
    told.heard(None)
    expect(panel).to_contain_text("does not answer. Since")
    expect(item).to_contain_text("1 h 5")  # the time goes on
    for answer in ("<html>", "[]", "{}", '{"situation": {"now": "x"}}', "null"):
        told.heard(answer)
        expect(panel.locator(".portal-mod-problem")).to_contain_text("cannot be read")
    lab.locator(".jp-LauncherCard", has_text="Terminal").click()
    expect(lab.locator(".jp-Terminal")).to_be_visible()
    told.nothing_more()

    def well() -> bool:
        look_again(lab)
        lab.wait_for_timeout(100)
        return bool(panel.locator(".portal-mod-problem").is_hidden())

    wait_until("the panel says no more of it", well)


def test_why_the_gpu_waits_and_a_folder_is_packed(demo: Any, owner: Person, lab: Any) -> None:
    folder = {"type": "directory"}
    owner.session("PUT", "api/contents/small", json=folder).raise_for_status()
    for number in range(3):
        text = {"type": "file", "format": "text", "content": f"file {number}"}
        owner.session("PUT", f"api/contents/small/{number}.txt", json=text).raise_for_status()
    open_lab(lab, demo)
    why = open_panel(lab).get_by_role("button", name="Why is my GPU waiting?")
    why.click()
    expect(toast(lab, "Looking at the programs of this session for 5 seconds…")).to_be_visible()
    dialog = lab.get_by_role("dialog")
    expect(dialog).to_contain_text("the programs of this session did next to nothing")
    assert violations(lab, ".jp-Dialog-content") == []
    expect(dialog.get_by_role("button", name="Pack folder")).to_have_count(0)
    dialog.get_by_role("button", name="Close").click()
    # What a slow folder would be.
    slow = {"sentence": HOSTILE, "advice": "Pack the folder.", "folder": "~/small", "pack": True}
    lab.route("**/portal/waiting*", lambda route: route.fulfill(body=json.dumps(slow)))
    why.click()
    expect(dialog).to_contain_text(HOSTILE)
    take_picture(lab, "lab-why-waiting")
    dialog.get_by_role("button", name="Pack folder").click()
    expect(toast(lab, "3 files are in ")).to_contain_text("/small.sqsh")
    assert lab.evaluate("window.hacked") is None
    (item,) = owner.session("GET", "portal/packing").json()["items"]
    assert (item["name"], item["reason"]) == ("small", "")
    lab.unroute("**/portal/waiting*")


def test_a_page_that_a_move_overtakes(demo: Any, lab: Any) -> None:
    """The new session answers before the page has saved: it turns this browser away at first."""

    def overtake() -> None:
        asked: list[int] = []

        def answer(route: Any) -> None:
            asked.append(1)
            if len(asked) == 1:
                route.fulfill(body=json.dumps({"job_id": only_job(demo, WHO), "saving": True}))
            else:
                route.fulfill(status=403, body=json.dumps({"message": "Forbidden"}))

        lab.route("**/portal/handover/page*", answer)

    open_lab(lab, demo)
    lab.evaluate("window.before = true")
    overtake()
    lab.wait_for_function("!window.before")  # nothing is lost: it loads again
    lab.unroute("**/portal/handover/page*")

    open_lab(lab, demo)
    lab.locator(".jp-LauncherCard", has_text="Text File").click()
    lab.locator(".jp-FileEditor .cm-content").fill("not saved")
    expect(lab.locator(".lm-TabBar-tab.jp-mod-dirty")).to_have_count(1)
    lab.evaluate("window.before = true")
    lab.route(
        "**/api/contents/*",
        lambda route: route.abort() if route.request.method == "PUT" else route.continue_(),
    )
    overtake()
    expect(toast(lab, "Not saved: untitled.txt. Copy what you need, then reload")).to_have_count(1)
    expect(lab.locator(".jp-FileEditor .cm-content")).to_have_text("not saved")
    assert lab.evaluate("window.before")
    lab.unroute("**/api/contents/*")
    lab.unroute("**/portal/handover/page*")
