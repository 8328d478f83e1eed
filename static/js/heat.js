// How much of each node was used or held in the last 24 hours: a row for each node, an hour after the other.

import { call } from "./api.js";
import { byId, el, fill, presses, setText } from "./dom.js";
import { Poller } from "./poller.js";
import { natural } from "./sorting.js";
import { capital, clock, count, percent } from "./words.js";

const EVERY = 600000;
const WORDS = { used: "GPUs used", held: "held by jobs" };

export class Heat {
  #press; // the button of what is shown

  // `shows(name)`: whether the page's filters let a node through; `onChoose(name)` shows it on the grid.
  constructor({ shows, onChoose }) {
    this.shows = shows;
    this.onChoose = onChoose;
    this.which = "used";
    this.answer = null;
    this.rows = new Map();
    this.#press = presses(byId("heat-which"), "which", (which) => {
      this.which = which;
      this.#draw();
    });
    // One tab stop: a thousand nodes have a thousand names.
    byId("heat-rows").addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const shown = [...this.rows.values()].filter((row) => !row.hidden);
      const next = shown[shown.indexOf(event.target.closest("tr")) + step]?.querySelector("button");
      if (!next) return;
      this.#stop(next);
      next.focus();
    });
    // Nothing is fetched until it is visible.
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      new Poller({ every: EVERY, ask: () => this.load() }).now();
    }, { rootMargin: "300px" });
    seen.observe(byId("heat"));
  }

  async load() {
    try {
      this.answer = await call("history/nodes");
    } catch (error) {
      setText(byId("heat-words"), error.message);
      return;
    }
    this.#draw();
  }

  // Hides the nodes that the filters do not let through.
  filter() {
    for (const [name, row] of this.rows) row.hidden = !this.shows(name);
    this.#stop(byId("heat-rows").querySelector("tr:not([hidden]) button"));
  }

  #stop(button) {
    if (this.stop) this.stop.tabIndex = -1;
    this.stop = button;
    if (button) button.tabIndex = 0;
  }

  #draw() {
    if (!this.answer) return;
    this.#press(this.which);
    const { at, nodes } = this.answer;
    const shown = Object.keys(nodes).filter((name) => nodes[name][this.which].some((value) => value !== null)).sort(natural);
    this.rows = new Map(shown.map((name) => [name, this.#row(name, at, nodes[name][this.which])]));
    fill(byId("heat-rows"), ...this.rows.values());
    byId("heat").hidden = !shown.length;
    setText(byId("heat-words"), shown.length ? `${capital(count(shown.length, "node"))}, ${clock(at[0])} to now` : "Nothing is recorded of the last 24 hours.");
    this.filter();
  }

  #row(name, at, values) {
    const strip = el("span.heat-strip", { "aria-hidden": "true" });
    // One element for each node, not for each hour: there may be a thousand nodes.
    const share = 100 / at.length;
    const steps = values.map((value, index) => `${heat(value)} ${index * share}% ${(index + 1) * share}%`);
    strip.style.background = `linear-gradient(to right, ${steps.join(", ")})`;
    strip.addEventListener("pointermove", ({ offsetX }) => {
      const index = Math.min(at.length - 1, Math.max(0, Math.floor((offsetX / strip.clientWidth) * at.length)));
      strip.title = `${name}, ${clock(at[index])}: ${percent(values[index])} ${WORDS[this.which]}`;
    });
    const known = values.filter((value) => value !== null);
    const most = Math.max(...known);
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    return el(
      "tr",
      el("th", { scope: "row" }, el("button.as-link", { type: "button", tabindex: "-1", onclick: () => this.onChoose(name) }, name)),
      el("td.heat-cell", strip),
      el("td.number", percent(mean)),
      el("td.number", percent(most)),
      el("td.number.heat-last", percent(values.at(-1))),
    );
  }
}

const heat = (value) => (value === null ? "transparent" : `color-mix(in srgb, var(--level) ${Math.round(value)}%, var(--portal-surface-2))`);
