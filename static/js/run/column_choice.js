// The columns of the table of points that the user chose, and those that stay in sight at its left edge. Both are
// kept for the user by the columns' names, for all runs.

import { differs, el, fill, hidden, icon } from "../dom.js";
import { Kept } from "../kept.js";

const PINNED = 4; // columns, so that there is room for the others

export class ColumnChoice {
  #kept = new Kept("run-columns"); // "shown", "hidden" or "pinned" by the columns' ids
  #columns = []; // that can be chosen

  // `place` is a <details>; `onChange()`: another choice.
  constructor(place, onChange) {
    this.place = place;
    this.list = el("ul");
    this.onChange = onChange;
    place.append(this.list);
    place.addEventListener("toggle", () => this.#list());
    place.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      place.open = false;
      place.querySelector("summary").focus();
    });
  }

  // Offers these columns, the first of which always stays; returns the chosen ones, the pinned ones first.
  choose(columns) {
    const [first, ...others] = columns;
    if (differs(this, others.map(({ id }) => id))) {
      this.#columns = others;
      this.#list();
    }
    const pinned = others.filter((column) => this.#choice(column) === "pinned").slice(0, PINNED);
    const shown = others.filter((column) => this.#choice(column) !== "hidden" && !pinned.includes(column));
    this.pinned = 1 + pinned.length;
    return [first, ...pinned, ...shown];
  }

  #choice({ id, usual }) {
    return this.#kept.all[id] ?? (usual ? "shown" : "hidden");
  }

  #list() {
    fill(this.list, this.place.open ? this.#columns.map((column) => this.#entry(column)) : null);
  }

  #entry(column) {
    const box = el("input.form-check-input", { type: "checkbox", onchange: () => set(box.checked ? "shown" : "hidden") });
    const pin = el("button.pin", { type: "button", onclick: () => set(this.#choice(column) === "pinned" ? "shown" : "pinned") }, icon("thumbtack"), hidden(`Pin ${column.head}`));
    const mark = () => {
      box.checked = this.#choice(column) !== "hidden";
      pin.setAttribute("aria-pressed", String(this.#choice(column) === "pinned"));
    };
    const set = (choice) => {
      this.#kept.keep(column.id, choice);
      mark();
      this.onChange();
    };
    mark();
    return el("li", el("label.check", box, ` ${column.head}`), pin);
  }

  // Lets the table's pinned columns stay in sight while it is scrolled; again after each change of its width.
  pin(table) {
    let left = 0;
    for (let at = 0; at < this.pinned; at += 1) {
      for (const row of table.table.rows) {
        row.cells[at].classList.add("pinned");
        row.cells[at].style.left = `${left}px`;
      }
      left += table.heads[at].offsetWidth;
    }
  }
}
