"""The running demo, as its people see it in a browser."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from portal.demo.daemons.slapd import PASSWORD
from portal.demo.running import Running

IMAGES = Path(__file__).parents[1] / "images"
SIZE = {"width": 1280, "height": 850}  # pixels
THEMES = ("light", "dark")
END = """() => {
  const footer = document.querySelector(".portal-footer")?.getBoundingClientRect();
  return footer ? Math.ceil(footer.bottom) + 16 : innerHeight;
}"""  # pixels from the top; JupyterLab has no footer
# Paths of the machine on which the pictures are taken, on the portal's pages and TensorBoard's.
HIDE = """addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style");
  style.textContent = ".portal-path, .quiet code { visibility: hidden }";
  document.head.append(style);
})"""
SOON = 60_000  # milliseconds
START = 240_000
SERVICE = "/services/portal/"
ENVIRONMENTS = ("pytorch", "jupyterlab")  # the first that the demo offers is shown


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Demo:
    """Browser, the demo and the names of the pictures that are wanted (empty: all)."""

    browser: Any
    running: Running
    wanted: frozenset[str]

    @property
    def url(self) -> str:
        """Return the address of the portal."""
        return str((self.running.state or {})["url"])

    def wants(self, *names: str) -> bool:
        """Return True if at least one of these pictures is wanted."""
        return not self.wanted or bool(self.wanted & set(names))

    @contextlib.contextmanager
    def visit(
        self, name: str, path: str = f"{SERVICE}sessions", size: dict[str, int] = SIZE
    ) -> Iterator[Any]:
        """Yield a page of the demo's user ``name`` at ``path``."""
        with self.page(size) as page:
            page.goto(f"{self.url}/hub/login?next={path}")
            page.get_by_label("User name").fill(name)
            page.get_by_label("Password", exact=True).fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(re.compile(re.escape(path.partition("?")[0])))
            yield page

    @contextlib.contextmanager
    def page(self, size: dict[str, int] = SIZE) -> Iterator[Any]:
        """Yield an empty page of a browser that nobody has signed in with."""
        # Pages refuse styles that are not their own, such as that of HIDE.
        context = self.browser.new_context(viewport=size, bypass_csp=True)
        context.add_init_script(HIDE)
        context.set_default_timeout(SOON)
        yield context.new_page()
        context.close()

    def picture(self, page: Any, name: str, turn: Callable[[], None] = nothing) -> None:
        """Write both themes of the picture ``name``, if it is wanted; call ``turn`` when the theme
        has changed."""
        if not self.wants(name):
            return
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.evaluate("t => document.documentElement.setAttribute('data-bs-theme', t)", theme)
            turn()
            page.wait_for_timeout(700)  # colours fade
            size = {**SIZE, "height": min(page.evaluate(END), SIZE["height"])}
            page.screenshot(path=IMAGES / f"{name}-{theme}.png", clip={"x": 0, "y": 0, **size})
        page.emulate_media(color_scheme="light")
        page.evaluate("document.documentElement.setAttribute('data-bs-theme', 'light')")
        print(f"{name}: done", flush=True)

    def stop_all(self, *people: str) -> None:
        """Stop the sessions of ``people``."""
        for name in people:
            with self.visit(name) as page:
                stop_all(page)


def environment(page: Any) -> str:
    """Return the name of the environment to show, of those that the launch page offers."""
    offered = page.locator("#launch-environments input[name='environment']")
    names = set(offered.evaluate_all("inputs => inputs.map(input => input.value)"))
    return next(name for name in ENVIRONMENTS if name in names)


def label_of(page: Any, field: str, value: str) -> Any:
    """Return the label of the choice ``value`` of ``field`` on the launch page."""
    button = page.locator(f"#portal-launch input[name='{field}'][value='{value}']")
    return page.locator(f"label[for='{button.get_attribute('id')}']")


def stop_all(page: Any) -> None:
    """Stop the sessions of the Sessions page that is open."""
    living = page.locator("#living")
    expect(living).not_to_have_attribute("aria-busy", "true")
    entries = page.locator("#living .entry")
    while count := entries.count():
        entries.first.get_by_role("button", name=re.compile("^More actions")).click()
        entries.first.get_by_role("button", name=re.compile("^(Stop|Cancel)")).click()
        page.get_by_role("dialog").get_by_role("button").last.click()
        expect(entries).to_have_count(count - 1, timeout=START)
