// Parallel coordinates of a run: an axis for each parameter and metric, and a line for each point. Axes
// are limited by dragging over them, or in fields.

import { call } from "../api.js";
import { el, empty, fill, setText } from "../dom.js";
import { axesOf, short } from "./axes.js";
import { Limits } from "./limits.js";
import { Picker } from "./picker.js";
import { count } from "../words.js";

const MOST = 8; // axes of parameters, and of metrics
const HEIGHT = 320;
const TOP = 34;
const BOTTOM = 12;
const LEAST_WIDTH = 108; // between two axes
const NEAR = 12; // pixels
const NS = "http://www.w3.org/2000/svg";

function svg(tag, values, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(values)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

const y = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
const share = (top) => Math.min(1, Math.max(0, 1 - (top - TOP) / (HEIGHT - TOP - BOTTOM)));

export class Parallel {
  constructor(place, open) {
    this.open = open;
    this.values = null; // portal.work.run.results.values.RunValues
    this.metric = "";
    this.lowest = true;
    this.words = el("p.portal-quiet", { role: "status" });
    this.legend = el("p.parallel-legend", {});
    this.scroll = el("div.parallel-scroll", { tabindex: 0, role: "region", "aria-label": "Plot of parallel coordinates" });
    const fields = el("div.parallel-fields");
    this.limits = new Limits(fields, () => this.#apply());
    place.append(el("div.plot-head", {}, this.legend, this.words), this.scroll);
    this.picker = new Picker(place, { id: "parallel-point", label: "Highlight", onPick: (key) => this.#highlight(key), onOpen: (key) => open(Number(key)) });
    place.append(el("details.parallel-limits", {}, el("summary", {}, "Filter lines"), fields));
    this.drawn = "";
    new ResizeObserver(() => this.scroll.clientWidth !== this.width && this.values && this.#draw()).observe(this.scroll);
  }

  // `query`: filter and order of the points; the colour shows `metric`, whose best is `lowest` or not.
  async update(run, { metric, lowest, query }) {
    const values = await call(`runs/${encodeURIComponent(run.id)}/values`, { query });
    const key = JSON.stringify([values, metric, lowest]);
    if (key === this.drawn) return;
    this.drawn = key;
    Object.assign(this, { values, metric, lowest });
    this.axes = axesOf(values, MOST, metric);
    this.limits.offer(this.axes);
    this.picker.offer(values.items.map(({ number }) => ({ key: String(number), name: `Point ${number}` })));
    this.#draw();
  }

  #draw() {
    const { axes, values } = this;
    if (!axes.length) {
      fill(this.scroll, empty("The points have reported no parameters and no metrics yet."));
      return;
    }
    this.width = this.scroll.clientWidth;
    this.step = Math.max(LEAST_WIDTH, (this.width - LEAST_WIDTH) / Math.max(1, axes.length - 1));
    const wide = Math.max(this.width, LEAST_WIDTH + this.step * (axes.length - 1)) - 4;
    const colour = this.#colours();
    this.paths = values.items.map((item) => {
      const path = svg("path", { d: this.#path(item), class: "parallel-line" });
      path.style.stroke = colour(item);
      return path;
    });
    this.top = svg("path", { class: "parallel-top", d: "" });
    this.picture = svg("svg", { width: wide, height: HEIGHT, role: "img", class: "parallel", "aria-label": this.#label() }, svg("g", {}, ...this.paths), this.top, ...axes.map((each, at) => this.#axis(each, at)));
    this.picture.addEventListener("pointermove", (event) => this.#point(event));
    this.picture.addEventListener("click", () => this.near && this.open(Number(this.near)));
    fill(this.scroll, this.picture);
    this.#apply();
    this.#highlight(this.picker.select.value);
  }

  #x = (at) => LEAST_WIDTH / 2 + at * this.step;

  // Only straight lines between neighbouring axes on which the point has a value.
  #path(item) {
    let d = "";
    let drawing = false;
    this.axes.forEach((each, at) => {
      const place = each.at(item[each.kind][each.index]);
      if (place !== null) d += `${drawing ? "L" : "M"}${this.#x(at).toFixed(1)} ${y(place).toFixed(1)}`;
      drawing = place !== null;
    });
    return d;
  }

  #colours() {
    const scale = this.axes.find((each) => each.kind === "metrics" && each.name === this.metric);
    fill(this.legend, scale ? [el("span.parallel-best", {}, this.lowest ? "lowest" : "highest"), ` to `, el("span.parallel-worst", {}, this.lowest ? "highest" : "lowest"), ` ${this.metric}`] : null);
    return (item) => {
      const place = scale?.at(item.metrics[scale.index]);
      if (place === null || place === undefined) return "var(--plot-total)";
      const worst = Math.round(100 * (this.lowest ? place : 1 - place));
      return `color-mix(in oklab, var(--plot-two) ${worst}%, var(--plot-one))`;
    };
  }

  #axis(each, at) {
    const x = this.#x(at);
    const name = each.name.length > 16 ? `${each.name.slice(0, 15)}…` : each.name;
    const ticks = each.ticks.map(([place, words]) => {
      const text = words.length > 14 ? `${words.slice(0, 13)}…` : words;
      return svg("text", { x: x + 6, y: y(place) + 4, class: "parallel-tick" }, text);
    });
    const brush = svg("rect", { x: x - 12, y: TOP - 6, width: 24, height: HEIGHT - TOP - BOTTOM + 12, class: "parallel-brush" });
    const limit = svg("rect", { x: x - 5, width: 10, y: 0, height: 0, class: "parallel-limit" });
    each.limit = limit;
    brush.addEventListener("pointerdown", (event) => this.#drag(each, brush, event));
    brush.addEventListener("click", (event) => event.stopPropagation());
    const title = svg("title", {}, each.log ? `${each.name} (logarithmic)` : each.name);
    return svg("g", {}, title, svg("line", { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM, class: "parallel-axis" }), limit, brush, ...ticks, svg("text", { x, y: 16, "text-anchor": "middle", class: `parallel-name parallel-${each.kind}` }, name));
  }

  // A limit by dragging; a click removes it.
  #drag(each, brush, event) {
    const begin = event.clientY - this.picture.getBoundingClientRect().top;
    brush.setPointerCapture(event.pointerId);
    const move = (moved) => {
      const end = moved.clientY - this.picture.getBoundingClientRect().top;
      const [low, high] = [share(Math.max(begin, end)), share(Math.min(begin, end))];
      if (Math.abs(end - begin) < 4) this.limits.remove(each);
      else this.limits.between(each, low, high);
      this.#apply();
    };
    const end = () => brush.removeEventListener("pointermove", move);
    move(event);
    brush.addEventListener("pointermove", move);
    brush.addEventListener("pointerup", end, { once: true });
    brush.addEventListener("pointercancel", end, { once: true });
  }

  // Lines outside of the limits are faint.
  #apply() {
    for (const each of this.axes) {
      const span = this.limits.span(each);
      each.limit?.setAttribute("y", String(span ? y(span[1]) - 3 : 0));
      each.limit?.setAttribute("height", String(span ? y(span[0]) - y(span[1]) + 6 : 0));
    }
    this.within = this.values.items.map((item) => this.limits.allow(item));
    this.paths?.forEach((path, at) => path.classList.toggle("parallel-faint", !this.within[at]));
    const { items, total } = this.values;
    const inside = this.within.filter(Boolean).length;
    const part = total > items.length ? ` of ${total.toLocaleString("en")}: the first in the table’s order` : "";
    setText(this.words, this.limits.any ? `${inside.toLocaleString("en")} of ${count(items.length, "point")}${part} within the limits` : `${count(items.length, "point")}${part}`);
  }

  // Highlights the line that is next to the pointer.
  #point(event) {
    const box = this.picture.getBoundingClientRect();
    const at = (event.clientX - box.left - LEAST_WIDTH / 2) / this.step;
    const [left, right] = [Math.floor(at), Math.ceil(at)].map((index) => this.axes[Math.min(this.axes.length - 1, Math.max(0, index))]);
    const top = event.clientY - box.top;
    /** @type {any} */
    let near = null;
    let least = NEAR;
    this.values.items.forEach((item, index) => {
      if (!this.within[index]) return;
      const [from, to] = [left, right].map((each) => each.at(item[each.kind][each.index]));
      if (from === null || to === null) return;
      const far = Math.abs(y(from + (at - Math.floor(at)) * (to - from)) - top);
      if (far < least) [least, near] = [far, item];
    });
    const number = near ? String(near.number) : "";
    if (number === this.near || (!number && !this.near)) return;
    this.near = number;
    if (near) this.#highlight(number);
  }

  #highlight(number) {
    const item = this.values?.items.find((each) => String(each.number) === number);
    this.top?.setAttribute("d", item && this.axes.length ? this.#path(item) : "");
    this.picker.show(item ? number : "", item ? this.#words(item) : "");
  }

  #words(item) {
    const parts = this.axes.map((each) => {
      const value = item[each.kind][each.index];
      return value === null ? null : `${each.name} ${typeof value === "number" ? short(value) : value}`;
    });
    return `Point ${item.number}: ${parts.filter(Boolean).join(", ")}`;
  }

  #label() {
    return `Parallel coordinates of ${count(this.values.items.length, "point")}. Axes: ${this.axes.map((each) => each.name).join(", ")}. The table has every number.`;
  }
}
