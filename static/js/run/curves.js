// Curves of a run: one metric over its steps, a line for each of the first points in the table's order.

import { call } from "../api.js";
import { el, setText } from "../dom.js";
import { Lines } from "./lines.js";
import { Picker } from "./picker.js";
import { count } from "../words.js";

export class Curves {
  constructor(place, open) {
    this.log = el("input.form-check-input", { type: "checkbox", id: "curves-log", onchange: () => this.#draw() });
    this.words = el("p.portal-quiet", { role: "status" });
    const plot = el("div");
    place.append(
      el("div.plot-head", {}, el("span", {}, this.log, " ", el("label", { for: "curves-log" }, "Logarithmic values")), this.words),
      plot,
    );
    this.lines = [];
    this.plot = new Lines(plot, {
      title: "Curves",
      onPoint: (line, words) => this.picker.show(line.key, words),
      onOpen: (line) => open(Number(line.key)),
    });
    this.picker = new Picker(place, {
      id: "curves-point",
      label: "Highlight",
      onPick: (key) => this.picker.show(key, this.plot.highlight(key)),
      onOpen: (key) => open(Number(key)),
    });
  }

  // `query`: filter and order of the points.
  async update(run, { metric, query }) {
    this.metric = metric;
    if (!metric) {
      setText(this.words, "The points have reported no metrics yet.");
      return;
    }
    const page = await call(`runs/${encodeURIComponent(run.id)}/curves`, { query: { ...query, curve: metric } });
    if (this.metric !== metric) return; // another one was chosen meanwhile
    this.lines = page.items.map(({ number, pairs }) => ({ key: String(number), name: `Point ${number}`, pairs }));
    setText(
      this.words,
      page.total > page.items.length
        ? `${count(page.items.length, "point")} of ${page.total.toLocaleString("en")} with curves: the first in the table’s order`
        : count(page.items.length, "point"),
    );
    await this.#draw();
  }

  async #draw() {
    try {
      await this.plot.show(this.lines, { title: this.metric, log: this.log.checked });
    } catch (error) {
      setText(this.words, "The plots cannot be drawn: the portal was installed without its plotting library.");
      throw error;
    }
    this.picker.offer(this.lines);
    this.plot.highlight(this.picker.select.value);
  }
}
