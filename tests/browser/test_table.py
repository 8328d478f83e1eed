"""The table of the pages (static/js/table.js), by itself: what stays when its rows change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from portal.paths import data_path

ADDRESS = "http://page.test"
MAKE = """async () => {
  const { Table } = await import("/js/table.js");
  const { el } = await import("/js/dom.js");
  const columns = [
    { name: "job", head: "Job", sort: "id", cell: (one) => el("button", {}, one.id) },
    { head: "State", ages: true, paint },
  ];
  window.painted = 0;
  function paint(cell, one) {
    cell.textContent = `${one.state} ${++window.painted}`;
  }
  const key = (one) => one.id;
  window.table = new Table(document.body, { columns, label: "title", key, empty: "none" });
}"""


@pytest.fixture
def table(page: Any) -> Any:
    """A page with an empty table, ``window.table``; what a cell says ends with how often one was
    painted."""

    def answer(route: Any) -> None:
        path = route.request.url.removeprefix(ADDRESS)
        if path.endswith((".js", ".css")):
            route.fulfill(path=Path(data_path("static")) / path.lstrip("/"))
        else:
            route.fulfill(body="<!doctype html><title>A table</title>", content_type="text/html")

    page.route(f"{ADDRESS}/**", answer)
    page.goto(f"{ADDRESS}/")
    page.evaluate(MAKE)
    return page


def show(page: Any, *ids: str) -> list[str]:
    items = [{"id": one, "state": "RUNNING"} for one in ids]
    page.evaluate("items => window.table.show(items, 'No job runs.')", items)
    return list(page.locator("tbody tr").evaluate_all("all => all.map(one => one.dataset.key)"))


def test_a_row_that_stays_keeps_the_focus_and_its_element(table: Any) -> None:
    assert show(table, "7", "8", "9") == ["7", "8", "9"]
    row = table.locator("[data-key='8']").element_handle()
    row.evaluate("row => { row.tabIndex = 0; row.focus(); }")
    assert show(table, "9", "8", "6") == ["9", "8", "6"]
    assert row.evaluate("row => row.isConnected && row.dataset.key") == "8"
    assert table.evaluate("document.activeElement.closest('tr')?.dataset.key") == "8"


def test_only_what_ages_is_painted_with_the_time(table: Any) -> None:
    show(table, "7", "8")
    button = table.locator("[data-key='7'] button").element_handle()
    table.evaluate("window.table.update({ id: '7', state: 'COMPLETING' }, true)")
    assert table.locator("[data-key='7'] td").all_inner_texts() == ["7", "COMPLETING 3"]
    assert button.evaluate("one => one.isConnected")
    table.evaluate("window.table.update({ id: '7', state: 'COMPLETING' })")
    assert not button.evaluate("one => one.isConnected")
    table.evaluate("window.table.update({ id: '5', state: 'RUNNING' })")  # it is not shown
    assert table.locator("[data-key='8'] td").all_inner_texts() == ["8", "RUNNING 2"]


def test_without_rows_stands_a_sentence(table: Any) -> None:
    show(table, "7")
    assert table.locator("table").is_visible() and table.locator("#none").is_hidden()
    assert show(table) == []
    assert table.locator("table").is_hidden()
    assert table.locator("#none").inner_text() == "No job runs."


@pytest.mark.parametrize(
    ("columns", "room", "cards"),
    [
        (2, 420, True),
        (2, 480, False),
        (6, 640, True),
        (6, 700, False),
        (8, 860, True),
        (12, 900, False),
    ],
)
def test_rows_are_cards_where_their_columns_would_be_too_narrow(
    table: Any, columns: int, room: int, cards: bool
) -> None:
    table.add_style_tag(url=f"{ADDRESS}/css/dashboard.css")
    table.evaluate(
        """async ([columns, room]) => {
          const { Table } = await import("/js/table.js");
          const place = document.createElement("div");
          place.style.width = `${room}px`;
          document.body.append(place);
          const head = (at) => ({ head: `Column ${at}`, cell: (row) => row.id });
          const all = Array.from({ length: columns }, (_, at) => head(at));
          new Table(place, { columns: all, label: "t" }).show([{ id: "7" }], "");
        }""",
        [columns, room],
    )
    head, cell = table.locator("div thead"), table.locator("div tbody td").first
    assert head.evaluate("head => getComputedStyle(head).position === 'absolute'") is cards
    assert (cell.evaluate("cell => getComputedStyle(cell, '::before').content") != "none") is cards
