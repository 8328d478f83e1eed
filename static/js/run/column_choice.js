// The columns of the table of points that the user chose, and those that stay in sight at its left edge. Both are
// kept for the user by the columns' names, for all runs.

import { el, fill, hidden, icon } from "../dom.js";
import { Kept } from "../kept.js";

const PINNED = 4; // columns, so that there is room for the others

export class ColumnChoice {
  #kept = new Kept("run-columns"); // "shown", "hidden" or "pinned" by the columns' ids
  #offered = "";

  // `place` is a <details>; `onChange()`: another choice.
  constructor(place, onChange) {
    this.list = el("ul");
    this.onChange = onChange;
    place.append(this.list);
  }

  // Offers these columns, the first of which always stays; returns the chosen ones, the pinned ones first.
  choose(columns) {
    const [first, ...others] = columns;
    const choices = this.#kept.all;
    const choice = ({ id, usual }) => choices[id] ?? (usual ? "shown" : "hidden");
    const pinned = others.filter((column) => choice(column) === "pinned").slice(0, PINNED);
    const shown = others.filter((column) => choice(column) !== "hidden" && !pinned.includes(column));
    this.#offer(others, choice);
    this.pinned = 1 + pinned.length;
    return [first, ...pinned, ...shown];
  }

  #offer(columns, choice) {
    const offered = JSON.stringify(columns.map(({ id }) => id));
    if (offered !== this.#offered) {
      this.#offered = offered;
      fill(
        this.list,
        columns.map((column) => {
          const set = (wanted) => {
            this.#kept.keep(column.id, wanted);
            this.onChange();
          };
          const box = el("input.form-check-input", { type: "checkbox", onchange: () => set(box.checked ? "shown" : "hidden") });
          const pin = el("button.pin", { type: "button", onclick: () => set(pin.getAttribute("aria-pressed") === "true" ? "shown" : "pinned") }, icon("thumbtack"), hidden(`Pin ${column.head}`));
          return el("li", {}, el("label.check", {}, box, ` ${column.head}`), pin);
        }),
      );
    }
    columns.forEach((column, at) => {
      const [box, pin] = this.list.children[at].querySelectorAll("input, button");
      box.checked = choice(column) !== "hidden";
      pin.setAttribute("aria-pressed", String(choice(column) === "pinned"));
    });
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
