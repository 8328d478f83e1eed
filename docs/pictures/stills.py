"""Stories of the pictures: what people do in the demo while pictures are taken."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Error as BrowserError
from playwright.sync_api import expect

from .demo import SERVICE, START, Demo, environment, label_of, stop_all
from .lab import Lab
from .neighbours import QUESTION, RUNNING, WAITING, class_in_session, jobs

COURSE = f"{SERVICE}courses/dl101"
PENDING = re.compile("/hub/spawn-pending/ada")
STARTED = re.compile("gpu0|Server ready")  # a quick start has no message in between
PROGRESS = 30_000  # milliseconds until the job has a node


def progress(demo: Demo, page: Any) -> None:
    """Start the session of the launch page, and picture its progress page, which is kept from
    leaving when the session is ready. A session that is ready before the Hub answers has no such
    page: the picture stays as it was."""
    page.get_by_role("button", name="Start", exact=True).click(no_wait_after=True)
    try:
        page.wait_for_url(PENDING, wait_until="commit")
        # Its reload too: a redirect from there is not seen by a route.
        page.route("**", _stay)
        expect(page.locator("#progress-log")).to_contain_text(STARTED, timeout=PROGRESS)
        details = page.locator("#progress-details")
        details.evaluate("details => { details.open = true; }", timeout=PROGRESS)
        demo.picture(page, "progress")
    except (AssertionError, BrowserError):  # the page may also leave while it is pictured
        print("progress: left out, the session was ready at once", flush=True)
    page.unroute("**")


def _stay(route: Any) -> None:
    """Refuse to leave the page; let its other requests pass."""
    if route.request.is_navigation_request():
        route.abort("aborted")
    else:
        route.continue_()


def session(demo: Demo) -> None:
    """Session of Ada, from the login form to its end, as in the tutorial."""
    demo.stop_all("ada")
    with demo.page() as page:
        page.goto(f"{demo.url}/hub/login")
        demo.picture(page, "sign-in")
    with demo.visit("ada", "/hub/spawn") as page:
        name = environment(page)
        label_of(page, "environment", name).click()
        label_of(page, "gpus", "2").click()
        label_of(page, "gpu_type", "v100").click()
        expect(page.locator("#launch-starts")).not_to_be_empty()
        demo.picture(page, "launch")
        progress(demo, page)
        page.goto(f"{demo.url}/hub/user-redirect/lab")
        page.wait_for_url(re.compile("/user/ada/lab"), timeout=START)
        lab = Lab(page)
        lab.follow_the_system()
        own, work = lab.own(), lab.work(name)
        lab.open(own)
        lab.run(own)
        lab.first_cell().click()
        lab.status()
        demo.picture(page, "lab")
        if demo.wants("tensorboard"):
            if work != own:
                lab.open(work)
                lab.run(work)
            lab.menu_of_logs().click()
            lab.tensorboard()
            demo.picture(page, "tensorboard", lab.tensorboard_again)
        lab.follow_the_system(False)
    with demo.visit("ada") as page:
        expect(page.locator("#living .entry")).to_have_count(1)
        expect(page.locator("#living")).not_to_contain_text("not measured", timeout=START)
        demo.picture(page, "sessions")
        if demo.wants("cluster"):
            cluster(demo)
        stop_all(page)
        expect(page.locator("#ended .entry").first).to_contain_text("You stopped the session")
        page.locator("#ended-title").scroll_into_view_if_needed()
        demo.picture(page, "ended")


def past(demo: Demo) -> None:
    """Home and the finished run that the demo has at a first visit."""
    with demo.visit("ada", "/hub/home") as page:
        _filled(page)
        demo.picture(page, "home")
        page.goto(f"{demo.url}{SERVICE}runs")
        _filled(page)
        demo.picture(page, "runs")
        page.locator("#list tbody a").first.click()
        expect(page.locator("#best-part")).to_be_visible()
        _filled(page)
        demo.picture(page, "run")


def _filled(page: Any) -> None:
    """Wait until all parts of the page are loaded."""
    expect(page.locator("main [aria-busy='true']")).to_have_count(0)


def cluster(demo: Demo) -> None:
    """Cluster page as Grace sees it, with jobs of several users."""
    with jobs(demo, *RUNNING, *WAITING), demo.visit("grace", SERVICE) as page:
        expect(page.locator("#jobs tbody tr")).not_to_have_count(1)
        page.wait_for_timeout(25_000)  # readings of the new jobs
        demo.picture(page, "cluster")


def catalog(demo: Demo) -> None:
    """Catalog, and an environment for those who curate."""
    with demo.visit("ada", "/hub/spawn") as page:
        name = environment(page)
        page.goto(f"{demo.url}{SERVICE}catalog")
        demo.picture(page, "catalog")
    with demo.visit("grace", f"{SERVICE}curate/environments/{name}") as page:
        expect(page.locator("#versions tbody tr, #versions p").first).to_be_visible()
        demo.picture(page, "curate")


def course(demo: Demo) -> None:
    """Course page and live board, as Barbara, with a student who raises a hand."""
    with class_in_session(demo), demo.visit("barbara", COURSE) as page:
        expect(page.locator("#readiness li").first).to_be_visible()
        demo.picture(page, "course")
        page.goto(f"{demo.url}{COURSE}/board")
        expect(page.locator("#tiles")).to_contain_text(QUESTION)
        demo.picture(page, "class")


STORIES: dict[Callable[[Demo], None], tuple[str, ...]] = {
    past: ("home", "runs", "run"),
    session: (
        *("sign-in", "launch", "progress", "lab", "tensorboard"),
        *("sessions", "cluster", "ended"),
    ),
    catalog: ("catalog", "curate"),
    course: ("course", "class"),
}
