// Curves of a run: one metric over its steps, a line for each of the first points in the table's order.

import { call } from "../api.js";
import { differs, el, fill, setText } from "../dom.js";
import { curvesOf } from "./best.js";
import { Lines, sample } from "./lines.js";
import { Picker } from "./picker.js";
import { count } from "../words.js";

export class Curves {
  constructor(place, open) {
    const box = (id, words) => {
      const input = el("input.form-check-input", { type: "checkbox", id, onchange: () => this.#draw() });
      return [input, el("span", input, " ", el("label", { for: id }, words))];
    };
    const [log, values] = box("curves-log", "Logarithmic values");
    const [logSteps, steps] = box("curves-log-steps", "Logarithmic steps");
    this.smooth = el("input", { type: "range", id: "curves-smooth", min: 0, max: 0.95, step: 0.05, value: 0, oninput: () => this.#draw() });
    this.smoothed = el("output.number", { for: "curves-smooth" });
    this.log = log;
    this.logSteps = logSteps;
    this.words = el("p.portal-quiet", { role: "status" });
    this.legend = el("ul.plot-legend", { "aria-label": "Legend" });
    const plot = el("div");
    place.append(
      el("div.plot-head", values, steps, el("span.plot-smooth", el("label", { for: "curves-smooth" }, "Smoothing"), this.smooth, this.smoothed), this.words),
      plot,
      this.legend,
    );
    this.open = open;
    this.lines = [];
    this.plot = new Lines(plot, {
      title: "Curves",
      onPoint: (line, words) => this.picker.show(line.key, words),
      onOpen: (line) => open(Number(line.key)),
    });
    this.picker = new Picker(place, {
      id: "curves-point",
      label: "Highlight",
      onPick: (key) => this.#highlight(key),
      onOpen: (key) => open(Number(key)),
    });
  }

  // `query`: filter and order of the points; `best`: the number of the best one.
  async update(run, { metric, best, query }) {
    this.metric = metric;
    if (!metric) {
      setText(this.words, "The points have reported no metrics yet.");
      return;
    }
    const page = await call(`runs/${encodeURIComponent(run.id)}/curves`, { query: { ...query, curve: metric } });
    if (this.metric !== metric) return; // another one was chosen meanwhile
    this.lines = curvesOf(page.items, best);
    setText(
      this.words,
      page.total > page.items.length
        ? `${count(page.items.length, "point")} of ${page.total.toLocaleString("en")} with curves: the first in the table’s order`
        : count(page.items.length, "point"),
    );
    this.#list();
    await this.#draw();
  }

  #highlight(key) {
    this.picker.show(key, this.plot.highlight(key));
  }

  // The legend: each entry highlights its line, and opens its point.
  #list() {
    // An entry may have the focus.
    if (!differs(this.legend, this.lines.map(({ key, about, best }) => [key, about, best]))) return;
    fill(
      this.legend,
      this.lines.map((line, at) => {
        const highlight = () => this.#highlight(line.key);
        const open = el("button.point-open", { type: "button", onclick: () => this.open(Number(line.key)), onfocus: highlight, onmouseenter: highlight }, line.name);
        return el("li", sample(line, at), open, line.about ? ` ${line.about}` : null, line.best ? [" · ", el("span.point-best", "best")] : null);
      }),
    );
  }

  async #draw() {
    setText(this.smoothed, this.smooth.value === "0" ? "off" : this.smooth.value);
    try {
      await this.plot.show(this.lines, { title: this.metric, log: this.log.checked, logSteps: this.logSteps.checked, smooth: Number(this.smooth.value) });
    } catch (error) {
      setText(this.words, "The plots cannot be drawn: the portal was installed without its plotting library.");
      throw error;
    }
    this.picker.offer(this.lines);
    this.plot.highlight(this.picker.select.value);
  }
}
