"""Time from the click on Start to a usable JupyterLab in a real browser, compared with the same
server started by hand and opened in the same browser."""

from __future__ import annotations

import re
import time
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.demo.hub_client import PASSWORD, Person

from .cluster import Cluster, NotMeasured
from .lab import ENVIRONMENT, PATIENCE, RESOURCES, WHO, compared, server_by_hand, wait_for_none
from .page import FLAGS, PROGRAM
from .report import Row

WHAT = "One JupyterLab session in the container: click to usable Lab in Chromium"


def measure(cluster: Cluster) -> list[Row]:
    """Return the row.

    The browser's own cache is empty each time, for both: by hand, each server has a URL that no
    browser has seen.
    """
    if not PROGRAM:
        raise NotMeasured("no chromium on this machine")
    person = Person(str(cluster.state["url"]), WHO)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        row = compared(
            WHAT,
            lambda: by_hand(cluster, browser),
            lambda: through_portal(cluster, browser, person),
            percent=10,
        )
        browser.close()
    return [row]


def by_hand(cluster: Cluster, browser: Browser) -> float:
    """Return the seconds from ``sbatch`` to a usable Lab, opened as soon as the server answers."""
    with server_by_hand(cluster) as (url, seconds):
        page = _page(browser)
        began = time.monotonic()
        page.goto(f"{url}lab?token=none", wait_until="commit")
        usable(page)
        seconds += time.monotonic() - began
        page.context.close()
    return seconds


def through_portal(cluster: Cluster, browser: Browser, person: Person) -> float:
    """Return the seconds from the click on Start to a usable Lab, for a person logged in."""
    page = _page(browser)
    try:
        page.goto(f"{person.url}/hub/login")
        page.get_by_label("User name").fill(WHO)
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/hub/**")
        choice = "&".join(f"{key}={value}" for key, value in RESOURCES.items())
        page.goto(f"{person.url}/hub/spawn#environment={ENVIRONMENT}&{choice}")
        page.reload()
        start = page.get_by_role("button", name="Start")
        start.wait_for()
        began = time.monotonic()
        start.click()
        page.wait_for_url(re.compile(f"/user/{WHO}/lab"), timeout=PATIENCE * 1000)
        usable(page)
        return time.monotonic() - began
    finally:
        page.context.close()
        person.stop()
        wait_for_none(cluster)


def _page(browser: Browser) -> Page:
    return browser.new_context(viewport={"width": 1400, "height": 900}).new_page()


def usable(page: Any) -> None:
    """Wait for the launcher's first card: from then on a notebook can be opened."""
    page.locator(".jp-LauncherCard").first.wait_for(timeout=PATIENCE * 1000)
