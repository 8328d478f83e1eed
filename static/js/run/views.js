// Views of a run's points, of which one is shown: the table, curves, parallel coordinates. The choice is
// kept in the page's address.

import { byId, presses } from "../dom.js";
import { keepInAddress } from "../filters.js";

export class Views {
  #press; // the button of the shown one

  // `views`: by name, {make(place) => {update(run, chosen)}, every} with milliseconds between updates;
  // null is the table, which the page updates itself. `onChange()`: another one is shown.
  constructor(views, onChange) {
    this.views = views;
    this.made = {};
    const given = new URLSearchParams(window.location.search).get("view") ?? "";
    this.name = given in views ? given : "table";
    this.#press = presses(byId("views"), "view", (name) => {
      if (name === this.name) return;
      this.name = name;
      keepInAddress({ view: name === "table" ? "" : name });
      this.#mark();
      onChange();
    });
    this.#mark();
  }

  #mark() {
    this.#press(this.name);
    for (const name of Object.keys(this.views)) byId(`view-${name}`).hidden = name !== this.name;
  }

  // Updates the shown view, but not more often than it wants.
  async update(run, chosen) {
    const view = this.views[this.name];
    if (!view) return;
    if (!this.made[this.name]) {
      const made = view.make(byId(`view-${this.name}`));
      this.made[this.name] = seldom(view.every, (...given) => made.update(...given));
    }
    await this.made[this.name](run, chosen);
  }
}

// `update(run, chosen)`, at most once in `every` milliseconds unless something else was chosen, or the run has ended.
export function seldom(every, update) {
  let at = -Infinity;
  let before = "";
  return async (run, chosen) => {
    const choice = JSON.stringify([chosen, run.ended_at]);
    if (choice === before && performance.now() - at < every) return;
    at = performance.now();
    before = choice;
    await update(run, chosen);
  };
}
