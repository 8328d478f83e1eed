// A table sorted by the server; on a narrow screen each row is a card. A row with a key stays the same
// element, so that it keeps the focus.

import { el, fill, hidden } from "./dom.js";

export class Table {
  // `columns`: {head, sort (what the API calls it), name, number, wide} and either cell(item) => text or
  // element, or paint(cell, item), which touches only what differs; `ages`: it changes with time alone.
  // `key(item)`: the row's, as text.
  // `onSort(sort)` is called with "name" or "-name". `label`: id of what names the table; `empty`: id
  // of the sentence shown without rows.
  constructor(place, { columns, label, sort = "", onSort = null, key = null, look = "list-cards", empty = null }) {
    this.place = place;
    this.columns = columns;
    this.sort = sort;
    this.key = key;
    this.rows = new Map();
    this.heads = columns.map((column) =>
      el(
        "th",
        { scope: "col", role: "columnheader", class: column.number ? "number" : null },
        column.sort
          ? el("button.sort", { type: "button", onclick: () => this.#order(column.sort, onSort) }, column.head)
          : column.head || hidden("Actions"),
      ),
    );
    this.body = el("tbody", { role: "rowgroup" });
    this.table = el(
      `table.list.${look}`,
      { role: "table", "aria-labelledby": label, hidden: true },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, this.heads)),
      this.body,
    );
    this.empty = el("p.portal-quiet.empty", { id: empty, hidden: true });
    place.classList.add("list-room");
    place.style.setProperty("--columns", String(columns.length));
    place.replaceChildren(this.table, this.empty);
    this.#marks();
  }

  // Shows these rows, or the sentence if there are none.
  show(items, otherwise) {
    const before = this.rows;
    this.rows = new Map();
    items.forEach((item, at) => {
      const key = this.key ? this.key(item) : at;
      const row = before.get(key) ?? this.#row(this.key ? key : null);
      before.delete(key);
      this.rows.set(key, row);
      this.#paint(row, item);
    });
    for (const { element } of before.values()) element.remove();
    let next = this.body.firstElementChild;
    for (const { element } of this.rows.values()) {
      if (element === next) next = next.nextElementSibling;
      else this.body.insertBefore(element, next);
    }
    this.table.hidden = !items.length;
    this.empty.hidden = items.length > 0;
    this.empty.textContent = otherwise;
  }

  // Paints the row of a changed item, if it is shown; with `aging`, only time-dependent cells.
  update(item, aging = false) {
    const row = this.rows.get(this.key(item));
    if (row) this.#paint(row, item, aging);
  }

  #row(key) {
    const cells = this.columns.map((column) =>
      el("td", {
        role: "cell",
        class: [column.name && `cell-${column.name}`, column.number && "number", column.wide && "span-all"].filter(Boolean).join(" ") || null,
        dataset: { head: column.head },
      }),
    );
    return { element: el("tr", { role: "row", dataset: key === null ? {} : { key } }, cells), cells };
  }

  #paint(row, item, aging = false) {
    row.element.classList.toggle("mine", Boolean(item.mine));
    this.columns.forEach((column, at) => {
      if (aging && !column.ages) return;
      if (column.paint) column.paint(row.cells[at], item);
      else fill(row.cells[at], column.cell(item));
    });
  }

  #order(name, onSort) {
    this.sort = this.sort === name ? `-${name}` : name;
    this.#marks();
    onSort(this.sort);
  }

  #marks() {
    this.columns.forEach((column, at) => {
      const on = column.sort && this.sort.replace(/^-/, "") === column.sort;
      if (on) this.heads[at].setAttribute("aria-sort", this.sort.startsWith("-") ? "descending" : "ascending");
      else this.heads[at].removeAttribute("aria-sort");
    });
  }
}

// A table of rows whose first cells name them; numbers stand to the right. `head`: the words of its columns.
export const rowsTable = (props, head, rows) =>
  el(
    "table.list",
    props,
    el("thead", el("tr", head.map((words) => (words === "" ? el("td") : el("th", { scope: "col" }, words))))),
    el("tbody", rows.map(([name, ...cells]) => el("tr", el("th", { scope: "row" }, name), cells.map((cell) => el("td", cell))))),
  );
