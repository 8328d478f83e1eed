// A plot of many lines over steps, with uPlot. One line can be highlighted: by the pointer, or by the
// picker's list.

import { el, empty } from "../dom.js";
import { metric } from "./view.js";

// uPlot comes from npm at installation (deploy/install.sh).
const library = import("../../vendor/uplot/uPlot.esm.js").then((module) => module.default);
const HEIGHT = 360;
const NEAR = 30; // pixels
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = () => document.documentElement.dataset.bsTheme === "dark";
const hue = (at) => `hsl(${Math.round((at * 137.5) % 360)} 65% ${dark() ? 68 : 38}%)`; // neighbours differ

export class Lines {
  // `onPoint(line, words)`: the pointer is at a line, or at none (null); `onOpen(line)`: it was clicked.
  constructor(place, { title, onPoint, onOpen }) {
    this.place = place;
    this.title = title;
    this.onPoint = onPoint;
    this.onOpen = onOpen;
    this.lines = [];
    this.log = false;
    this.at = null; // the highlighted line
    this.same = ""; // what is drawn
    this.library = null;
    place.classList.add("plot", "plot-lines");
    new MutationObserver(() => this.#draw()).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
    new ResizeObserver(() => this.#fit()).observe(place);
  }

  // `lines`: {key, name, pairs, kind} each, pairs of a step and a value; lines of a kind, a number, look
  // alike (undefined: each line has a look of its own).
  async show(lines, { title = this.title, log = this.log } = {}) {
    this.library ??= await library;
    const same = JSON.stringify([lines, title, log]);
    if (same === this.same) return;
    Object.assign(this, { same, lines, title, log });
    this.#draw();
  }

  // Highlights the line with this key, "" none; returns its words.
  highlight(key) {
    const at = this.lines.findIndex((line) => line.key === key);
    this.at = at < 0 ? null : at;
    this.plot?.setSeries(at < 0 ? null : at + 1, { focus: true });
    return at < 0 ? "" : this.#words(at);
  }

  #words(at, index = null) {
    const { name, pairs } = this.lines[at];
    const [step, value] = (index === null ? undefined : pairs.find((pair) => pair[0] === index)) ?? pairs.at(-1);
    return `${name}: ${said(value)} at step ${said(step)}`;
  }

  #fit() {
    if (this.plot && this.place.clientWidth) this.plot.setSize({ width: this.place.clientWidth, height: HEIGHT });
  }

  #draw() {
    this.plot?.destroy();
    this.plot = null;
    const drawn = this.lines.map((line) => ordered(line.pairs, this.log));
    if (!drawn.some(([steps]) => steps.length)) {
      this.place.replaceChildren(empty(this.log && this.lines.length ? "No value is greater than 0." : "Nothing has been reported yet."));
      return;
    }
    this.place.replaceChildren();
    const data = this.library.join(drawn);
    const axis = { stroke: variable("--bs-body-color"), grid: { stroke: variable("--bs-border-color-translucent"), width: 1 }, font: `12px ${variable("--portal-font")}` };
    const options = {
      width: this.place.clientWidth || 300,
      height: HEIGHT,
      cursor: { focus: { prox: NEAR }, drag: { x: true, y: false } },
      focus: { alpha: this.lines.length > 8 ? 0.2 : 0.45 },
      legend: { show: false },
      scales: { x: { time: false }, y: this.log ? { distr: 3 } : {} },
      axes: [
        { ...axis, label: "step", labelSize: 20, labelFont: axis.font },
        { ...axis, size: 70, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : said(tick))) },
      ],
      series: [
        {},
        ...this.lines.map((line, at) => ({
          label: line.name,
          stroke: line.kind === undefined ? hue(at) : variable(`--run-${line.kind % 4}`),
          dash: DASHES[line.kind === undefined ? Math.floor(at / 12) % 4 : line.kind % 4],
          width: 1.6,
          spanGaps: true,
          points: { show: line.pairs.length === 1 },
        })),
      ],
      hooks: { setSeries: [(plot, at) => this.#pointed(plot, at)] },
    };
    this.plot = new this.library(options, data, this.place);
    this.plot.over.addEventListener("click", () => this.at !== null && this.onOpen(this.lines[this.at]));
    const canvas = this.place.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", this.#label());
  }

  #pointed(plot, at) {
    if (plot.cursor.left === undefined || plot.cursor.left < 0) return; // it was chosen in the list
    this.at = at ? at - 1 : null;
    const step = plot.cursor.idx === null ? null : plot.data[0][plot.cursor.idx];
    if (at) this.onPoint(this.lines[at - 1], this.#words(at - 1, step));
  }

  #label() {
    const ends = this.lines.filter((line) => line.pairs.length).map((line) => line.pairs.at(-1)[1]);
    return `${this.title}: ${ends.length} lines. Last values from ${said(Math.min(...ends))} to ${said(Math.max(...ends))}. The table has the newest value of each point.`;
  }
}

const said = (value) => String(metric(value));

// Steps in ascending order, each once, with their values; a logarithm needs values above 0.
function ordered(pairs, log) {
  const values = new Map(pairs.filter(([, value]) => !log || value > 0));
  const steps = [...values.keys()].sort((a, b) => a - b);
  return [steps, steps.map((step) => values.get(step))];
}
