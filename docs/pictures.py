"""Generator of the pictures of the documentation, from the running demo (`make pictures`).

python -m docs.pictures [NAME …]     take all pictures, or those named, in light and dark

Each is docs/images/NAME-light.png and NAME-dark.png, 1280 x 850 pixels. Sessions of the people in
the pictures are stopped before and after.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from portal.demo.daemons.slapd import PASSWORD
from portal.demo.home import Home
from portal.demo.running import Running
from tests.support.pages.chromium import chromium

IMAGES = Path(__file__).with_name("images")
SIZE = {"width": 1280, "height": 850}  # pixels
THEMES = ("light", "dark")
SOON = 60_000  # milliseconds
START = 240_000
CELL = "import sys\nsys.version"


@dataclass(frozen=True)
class Tour:
    """Browser, address of the demo and pictures that are wanted (empty: all)."""

    browser: Any
    url: str
    wanted: frozenset[str]

    @contextlib.contextmanager
    def visit(self, name: str, path: str) -> Iterator[Any]:
        """Yield a page of the demo's user ``name`` at ``path``."""
        context = self.browser.new_context(viewport=SIZE)
        context.set_default_timeout(SOON)
        page = context.new_page()
        page.goto(f"{self.url}/hub/login?next={path}")
        page.get_by_label("User name").fill(name)
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(re.compile(re.escape(path.partition("?")[0])))
        yield page
        context.close()

    def picture(self, page: Any, name: str) -> None:
        """Write both themes of the picture ``name``, if it is wanted."""
        if self.wanted and name not in self.wanted:
            return
        # Paths of the machine on which the pictures are taken.
        page.add_style_tag(content=".portal-path { visibility: hidden }")
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.evaluate("t => document.documentElement.setAttribute('data-bs-theme', t)", theme)
            page.wait_for_timeout(700)  # colours fade
            page.screenshot(path=IMAGES / f"{name}-{theme}.png")
        print(f"{name}: done", flush=True)


def session(tour: Tour) -> None:
    """Launch page, JupyterLab and the Sessions page, as Ada."""
    with tour.visit("ada", "/services/portal/sessions") as page:
        stop_all(page)
        page.goto(f"{tour.url}/hub/spawn")
        page.get_by_role("radio", name="JupyterLab").check(force=True)
        page.locator("label[for='launch-gpus-2']").click()
        page.wait_for_timeout(2000)  # the estimate
        tour.picture(page, "launch")
        page.get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url(re.compile("/user/ada/lab"), timeout=START)
        page.goto(f"{page.url.split('/lab')[0]}/lab/workspaces/pictures?reset")
        page.locator(".jp-LauncherCard[data-category='Notebook']").first.click(timeout=START)
        cell = page.locator(".jp-Notebook-cell .cm-content").last
        cell.click(timeout=START)
        cell.fill(CELL)
        expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=START)
        page.keyboard.press("Shift+Enter")
        expect(page.locator(".jp-OutputArea-output pre").last).to_be_visible(timeout=START)
        tour.picture(page, "lab")
    with tour.visit("ada", "/services/portal/sessions") as page:
        expect(page.locator("#living .entry")).to_have_count(1)
        tour.picture(page, "sessions")
    with tour.visit("grace", "/services/portal/") as page:
        expect(page.locator("#jobs tbody tr").first).to_be_visible()
        tour.picture(page, "cluster")
    with tour.visit("ada", "/services/portal/sessions") as page:
        stop_all(page)


def catalog(tour: Tour) -> None:
    """Catalog, and an environment for those who curate."""
    with tour.visit("ada", "/services/portal/catalog") as page:
        tour.picture(page, "catalog")
    with tour.visit("grace", "/services/portal/curate/environments/jupyterlab") as page:
        expect(page.locator("#versions tbody tr, #versions p").first).to_be_visible()
        tour.picture(page, "curate")


def course(tour: Tour) -> None:
    """Course page and live board, as Barbara, with a student who raises a hand."""
    address = "/services/portal/courses/dl101"
    with tour.visit("student01", "/services/portal/sessions") as page:
        page.get_by_role("link", name=re.compile("^(Start|Open|Show progress)")).first.click()
        page.wait_for_url(re.compile("/user/student01/course-dl101/lab"), timeout=START)
        page.get_by_role("button", name=re.compile("^Raise hand")).click(timeout=START)
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox").fill("My loss is NaN after epoch 3")
        dialog.get_by_role("button").last.click()
        with tour.visit("barbara", address) as teacher:
            expect(teacher.locator("#readiness li").first).to_be_visible()
            tour.picture(teacher, "course")
            teacher.goto(f"{tour.url}{address}/board")
            expect(teacher.locator("#tiles")).to_contain_text("My loss is NaN")
            tour.picture(teacher, "class")
    with tour.visit("student01", "/services/portal/sessions") as page:
        stop_all(page)


STORIES: dict[Callable[[Tour], None], tuple[str, ...]] = {
    session: ("launch", "lab", "sessions", "cluster"),
    catalog: ("catalog", "curate"),
    course: ("course", "class"),
}


def stop_all(page: Any) -> None:
    """Stop the sessions of the Sessions page that is open."""
    living = page.locator("#living")
    expect(living).not_to_have_attribute("aria-busy", "true")
    entries = page.locator("#living .entry")
    while entries.count():
        entries.first.get_by_role("button", name=re.compile("Stop|Cancel")).click()
        page.get_by_role("dialog").get_by_role("button").last.click()
        expect(living).to_contain_text("No session", timeout=START)


def main(names: list[str]) -> int:
    """Take the pictures ``names`` (none: all); return 1 with a sentence if that is impossible."""
    known = {name for pictures in STORIES.values() for name in pictures}
    if unknown := set(names) - known:
        print(f"There is no picture {sorted(unknown)}. Pictures: {sorted(known)}.", file=sys.stderr)
        return 1
    state = Running(Home.find()).state
    if state is None or not state["ready"]:
        print("The demo is not running. Start it with 'make run'.", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with chromium() as browser:
        tour = Tour(browser, state["url"], frozenset(names))
        for story, pictures in STORIES.items():
            if not names or set(names) & set(pictures):
                story(tour)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
