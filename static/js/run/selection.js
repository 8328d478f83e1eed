// Runs that are chosen in the list, by checkboxes, to be compared: two to four. A choice stays while the
// list is sorted and turned.

import { facts } from "../api.js";
import { byId, el, hidden, setText } from "../dom.js";

const MOST = 4;
const LETTERS = ["a", "b", "c", "d"];

export class Selection {
  constructor() {
    this.chosen = new Map(); // names by id
    this.boxes = new Map(); // checkboxes by id
    this.link = byId("compare");
    this.#show();
  }

  // Puts the run's checkbox into a cell; it stays the same element.
  paint(cell, run) {
    if (cell.firstChild) return;
    const box = el("input.form-check-input", { type: "checkbox", onchange: () => this.#choose(run, box.checked) });
    box.checked = this.chosen.has(run.id);
    this.boxes.set(run.id, box);
    cell.append(el("label.run-choice", {}, box, hidden(`Compare ${run.name}`)));
    this.#show();
  }

  #choose(run, on) {
    if (on) this.chosen.set(run.id, run.name);
    else this.chosen.delete(run.id);
    this.#show();
  }

  #show() {
    const ids = [...this.chosen.keys()];
    const full = ids.length >= MOST;
    for (const [id, box] of this.boxes) box.disabled = full && !this.chosen.has(id);
    const query = ids.map((id, at) => `${LETTERS[at]}=${encodeURIComponent(id)}`).join("&");
    this.link.hidden = ids.length < 2;
    this.link.href = `${facts.prefix}runs/compare?${query}`;
    const words = ids.length === 1 ? "Choose another run to compare with." : full ? "At most four runs can be compared." : "";
    setText(byId("compare-words"), words);
    setText(this.link, `Compare ${ids.length} runs`);
  }
}
