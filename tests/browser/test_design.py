"""The components of the pages, on the page that shows them all (templates/portal/design.html).

What Chromium makes of each is compared with a recorded table: its size, colours, edges and type.
Not with recorded pictures: the pixels of letters and curves change with each version of Chromium
and FreeType, and the tests run with the system's. A change on purpose is recorded with
PORTAL_TEST_RECORD_DESIGN=1, and the table's difference in the commit shows what has changed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from looks import STILL, check, take_picture
from pages_alone import open_alone

playwright = pytest.importorskip("playwright.sync_api")

TABLE = Path(__file__).with_name("design.json")
RECORD = "PORTAL_TEST_RECORD_DESIGN"
NEAR = 2  # pixels; letters are a little wider or narrower with another FreeType
MEASURE = """() => Object.fromEntries([...document.querySelectorAll("[data-specimen]")].map(at => {
  const style = getComputedStyle(at.firstElementChild);
  const box = at.firstElementChild.getBoundingClientRect();
  return [`${at.closest("[data-bs-theme]").dataset.bsTheme} ${at.dataset.specimen}`, {
    size: [Math.round(box.width), Math.round(box.height)],
    ink: style.color,
    ground: style.backgroundColor,
    edge: style.borderTopWidth === "0px" ? "" : `${style.borderTopStyle} ${style.borderTopColor}`,
    corner: style.borderTopLeftRadius,
    type: `${style.fontWeight} ${style.fontSize} ${style.fontFamily.split(",")[0]}`,
  }];
}))"""
SCRIPTED = """() => [...document.querySelectorAll("[data-made]")].map(made => {
  const name = made.dataset.made;
  const plain = element =>
    element.innerHTML.replace(/\\s+/g, " ").replace(/> | </g, x => x.trim()).trim();
  const template = document.querySelector(`[data-specimen="${name}"]`);
  return [name, plain(template), plain(made)];
})"""


@pytest.fixture
def gallery(page: Any) -> Any:
    # Beside the side bar (240 px) and the edges, 1248 px are left for both themes.
    page.set_viewport_size({"width": 1552, "height": 900})
    open_alone(page, "design.html")
    page.locator("[data-made=menu]").wait_for(state="attached")
    page.reload()  # the typeface is in the browser's cache now
    page.locator("[data-made=menu]").wait_for(state="attached")
    page.evaluate("document.fonts.ready")
    page.evaluate(STILL)
    return page


def test_each_component_looks_as_recorded(gallery: Any) -> None:
    take_picture(gallery, "design", full_page=True)
    now = gallery.evaluate(MEASURE)
    if RECORD in os.environ:
        rows = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(now.items()))
        TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    recorded = json.loads(TABLE.read_text())
    assert now.keys() == recorded.keys()
    changed = {}
    for name, before in recorded.items():
        after = now[name]
        for about in before:
            same = (
                all(abs(a - b) <= NEAR for a, b in zip(before[about], after[about], strict=True))
                if about == "size"
                else before[about] == after[about]
            )
            if not same:
                changed[f"{name}: {about}"] = (before[about], after[about])
    assert not changed


def test_scripts_make_the_same_components(gallery: Any) -> None:
    made = gallery.evaluate(SCRIPTED)
    assert len(made) > 40
    assert {name: script for name, _, script in made} == {name: text for name, text, _ in made}


def test_the_typeface_is_there_and_its_figures_are_equally_wide(gallery: Any) -> None:
    assert gallery.evaluate("document.fonts.check('15px \"Inter Variable\"')")
    faces = "[...document.fonts].filter(f => f.status === 'loaded').map(f => f.family)"
    assert any("Inter Variable" in family for family in gallery.evaluate(faces))
    widths = gallery.evaluate(
        """() => "0123456789".split("").map(digit => {
          const text = document.body.appendChild(document.createElement("span"));
          text.className = "number";
          text.textContent = digit.repeat(40);
          return text.getBoundingClientRect().width;
        })"""
    )
    assert max(widths) - min(widths) < 0.5


def test_without_the_service_the_systems_typeface_stands_in(page: Any) -> None:
    """The Hub's pages are shown while the service, which sends the typeface, is down."""
    open_alone(page, "design.html", refuse="woff2")
    page.locator("[data-made=menu]").wait_for(state="attached")
    lines = page.evaluate(MEASURE)
    recorded = json.loads(TABLE.read_text())
    for name in ("light text", "light button", "light state-running", "light field"):
        assert abs(lines[name]["size"][1] - recorded[name]["size"][1]) <= NEAR, name


def test_the_menu_opens_from_the_keyboard(gallery: Any) -> None:
    more = gallery.get_by_role("button", name="More actions for the example").first
    more.focus()
    gallery.keyboard.press("Enter")
    item = gallery.get_by_role("link", name="Repeat").first
    playwright.expect(item).to_be_visible()
    gallery.keyboard.press("ArrowDown")
    playwright.expect(item).to_be_focused()
    gallery.keyboard.press("Escape")
    playwright.expect(item).to_be_hidden()
    playwright.expect(more).to_be_focused()


def test_motion_is_off_where_it_is_not_wanted(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    open_alone(page, "design.html")
    page.locator("[data-made=menu]").wait_for(state="attached")
    assert page.evaluate("document.getAnimations().length") == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate("document.getAnimations().length") > 0


def test_the_page_is_accessible(gallery: Any) -> None:
    check(gallery, "design")
