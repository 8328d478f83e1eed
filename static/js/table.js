// A table whose order the server makes; on a narrow screen each row is a card.

import { el, hidden } from "./dom.js";

export class Table {
  // `columns`: {head, cell(item) => text or element, sort (what the API calls it), number, wide}.
  // `onSort(sort)` is called with "name" or "-name". `label`: id of what names the table.
  constructor(place, { columns, label, sort = "", onSort = null }) {
    this.place = place;
    this.columns = columns;
    this.sort = sort;
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
      "table.list.list-cards",
      { role: "table", "aria-labelledby": label, hidden: true },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, this.heads)),
      this.body,
    );
    this.empty = el("p.portal-quiet.empty", { hidden: true });
    place.replaceChildren(this.table, this.empty);
    this.#marks();
  }

  // Shows these rows, or the sentence where there are none.
  show(items, otherwise) {
    this.body.replaceChildren(
      ...items.map((item) =>
        el(
          "tr",
          { role: "row", class: item.mine ? "mine" : null },
          this.columns.map((column) =>
            el(
              "td",
              { role: "cell", class: [column.number && "number", column.wide && "span-all"].filter(Boolean).join(" ") || null, dataset: { head: column.head } },
              column.cell(item),
            ),
          ),
        ),
      ),
    );
    this.table.hidden = !items.length;
    this.empty.hidden = items.length > 0;
    this.empty.textContent = otherwise;
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
