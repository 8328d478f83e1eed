// Views of a run's points, of which one is shown: the table, curves, parallel coordinates. The choice is
// kept in the page's address.

import { byId } from "../dom.js";
import { keepInAddress } from "../filters.js";

export class Views {
  // `views`: by name, {make(place) => {update(run, chosen)}, every} with milliseconds between updates;
  // null is the table, which the page updates itself. `onChange()`: another one is shown.
  constructor(views, onChange) {
    this.views = views;
    this.made = {};
    this.buttons = [...byId("views").querySelectorAll("button")];
    const given = new URLSearchParams(window.location.search).get("view") ?? "";
    this.name = given in views ? given : "table";
    byId("views").addEventListener("click", (event) => {
      const name = event.target.closest("button")?.dataset.view;
      if (!name || name === this.name) return;
      this.name = name;
      keepInAddress({ view: name === "table" ? "" : name });
      this.#mark();
      onChange();
    });
    this.#mark();
  }

  #mark() {
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.view === this.name));
    for (const name of Object.keys(this.views)) byId(`view-${name}`).hidden = name !== this.name;
  }

  // Updates the shown view, but not more often than it wants, unless something else was chosen.
  async update(run, chosen) {
    const view = this.views[this.name];
    if (!view) return;
    this.made[this.name] ??= { view: view.make(byId(`view-${this.name}`)), at: -Infinity, chosen: "" };
    const made = this.made[this.name];
    const choice = JSON.stringify([chosen, run.ended_at]);
    if (made.chosen === choice && performance.now() - made.at < view.every) return;
    made.at = performance.now();
    made.chosen = choice;
    await made.view.update(run, chosen);
  }
}
