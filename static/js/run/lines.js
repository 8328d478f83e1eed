// A plot of many lines over steps, with uPlot. One line can be highlighted: by the pointer, which also shows its
// value, or by a list beside the plot.

import { axisLook, color, describe, follow, library } from "../canvas.js";
import { differs, el, empty } from "../dom.js";
import { metric } from "./view.js";

const HEIGHT = 360;
const NEAR = 30; // pixels
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const BORDERS = ["solid", "dashed", "dotted", "double"]; // as the dashes, in a legend
const WHOLE = Array.from({ length: 12 }, (_, zeros) => [1, 2, 5].map((digit) => digit * 10 ** zeros)).flat();

const hue = (at) => `hsl(${Math.round((at * 137.5) % 360)} 65% ${color("--line-light")})`; // neighbours differ
const dash = (line, at) => (line.kind === undefined ? Math.floor(at / 12) % 4 : line.kind % 4);

export class Lines {
  // `onPoint(line, words)`: the pointer is at a line; `onOpen(line)`: it was clicked.
  constructor(place, { title, onPoint = (_line, _words) => {}, onOpen, height = HEIGHT }) {
    this.place = place;
    this.onPoint = onPoint;
    this.onOpen = onOpen;
    this.height = height;
    this.lines = [];
    this.look = { title, axis: "step", log: false, logSteps: false, smooth: 0 };
    this.at = null; // the highlighted line
    this.library = null;
    this.tip = el("div.plot-tip", { "aria-hidden": "true", hidden: true });
    place.classList.add("plot", "plot-lines");
    place.style.minHeight = `${height}px`; // what is below does not jump
    follow(place, height, () => this.#draw(), () => this.plot);
  }

  // `lines`: {key, name, about, pairs, kind, best, dots} each, pairs of a step and a value; lines of a kind, a
  // number, look alike (undefined: each line has a look of its own); `about` follows the name at the pointer. `look`:
  // {title, axis, log, logSteps, smooth}, of which those that are left out stay as they were.
  async show(lines, look = {}) {
    this.library ??= await library();
    const wanted = { ...this.look, ...look };
    if (!differs(this, [lines, wanted])) return;
    // What is drawn last is above the others, in the colour of its place.
    const placed = lines.map((line, place) => ({ ...line, place }));
    Object.assign(this, { look: wanted, lines: [...placed.filter(({ best }) => !best), ...placed.filter(({ best }) => best)], at: null });
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
    return `${name}: ${said(value)} at ${this.look.axis} ${said(step)}`;
  }

  #draw() {
    this.plot?.destroy();
    this.plot = null;
    const { axis, log, logSteps } = this.look;
    const drawn = this.lines.map((line) => ordered(line.pairs, this.look));
    if (!drawn.some(([steps]) => steps.length)) {
      this.place.replaceChildren(empty((log || logSteps) && this.lines.length ? "No value is greater than 0." : "Nothing has been reported yet."));
      return;
    }
    this.place.replaceChildren();
    const data = this.library.join(drawn);
    const line = axisLook();
    const whole = data[0].every(Number.isInteger);
    const numbers = (_, ticks) => ticks.map((tick) => (tick === null ? "" : said(tick)));
    const options = {
      width: this.place.clientWidth || 300,
      height: this.height,
      cursor: { focus: { prox: NEAR }, drag: { x: true, y: false } },
      focus: { alpha: this.lines.length > 8 ? 0.2 : 0.45 },
      legend: { show: false },
      scales: { x: { time: false, ...(logSteps ? { distr: 3 } : {}) }, y: log ? { distr: 3 } : {} },
      axes: [
        { ...line, size: 30, label: axis, labelSize: 20, labelFont: line.font, values: numbers, ...(whole && !logSteps ? { incrs: WHOLE } : {}) },
        { ...line, size: 70, values: numbers },
      ],
      series: [{}, ...this.lines.map((one) => this.#series(one))],
      hooks: { setSeries: [(plot, at) => this.#pointed(plot, at)], setCursor: [(plot) => this.#tell(plot)] },
    };
    this.plot = new this.library(options, data, this.place);
    this.plot.over.append(this.tip);
    this.plot.over.addEventListener("click", () => this.at !== null && this.lines[this.at].key && this.onOpen(this.lines[this.at]));
    describe(this.place, this.#label());
  }

  #series(line) {
    const stroke = line.kind === undefined ? hue(line.place) : color(`--run-${line.kind % 4}`);
    return {
      label: line.name,
      stroke,
      dash: DASHES[dash(line, line.place)],
      width: line.best ? 3.5 : 1.6,
      spanGaps: true,
      ...(line.dots ? { paths: () => null, points: { show: true, size: line.best ? 13 : 7, fill: stroke } } : { points: { show: line.pairs.length === 1 } }),
    };
  }

  #pointed(plot, at) {
    if (plot.cursor.left === undefined || plot.cursor.left < 0) return; // it was chosen in the list
    this.at = at ? at - 1 : null;
    if (at) this.onPoint(this.lines[at - 1], this.#words(at - 1, this.#step(plot)));
  }

  #step = (plot) => (plot.cursor.idx === null || plot.cursor.idx === undefined ? null : plot.data[0][plot.cursor.idx]);

  // The value at the pointer, beside it.
  #tell(plot) {
    const { left, top } = plot.cursor;
    this.tip.hidden = this.at === null || left < 0;
    if (this.tip.hidden) return;
    const { about } = this.lines[this.at];
    this.tip.replaceChildren(el("strong", this.#words(this.at, this.#step(plot))), about ? el("div", about) : "");
    const room = plot.over.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(left + 14, room))}px`;
    this.tip.style.top = `${Math.max(0, top - this.tip.offsetHeight - 10)}px`;
  }

  #label() {
    const { title } = this.look;
    const ends = this.lines.filter((line) => line.pairs.length).map((line) => line.pairs.at(-1)[1]);
    const values = this.lines.some((line) => line.dots) ? "values" : "lines";
    return `${title}: ${values === "values" ? this.lines[0].pairs.length : ends.length} ${values}. Last values from ${said(Math.min(...ends))} to ${said(Math.max(...ends))}. The table has the newest value of each point.`;
  }
}

// How a line looks, for a legend.
export function sample(line, at = 0) {
  const made = el(`span.compare-sample${line.kind === undefined ? "" : `.compare-${line.kind % 4}`}`, { "aria-hidden": "true" });
  if (line.kind !== undefined) return made;
  made.style.borderTopStyle = BORDERS[dash(line, at)];
  made.style.setProperty("--hue", String(Math.round((at * 137.5) % 360)));
  made.classList.add("plot-sample");
  return made;
}

const said = (value) => String(metric(value));

// Steps in ascending order, each once, with their values; a logarithm needs values above 0. Smoothed as
// TensorBoard does it: a value is the mean of all up to it, whose weights fall by the factor `smooth` a step.
function ordered(pairs, { log, logSteps, smooth }) {
  const values = new Map(pairs.filter(([step, value]) => (!log || value > 0) && (!logSteps || step > 0)));
  const steps = [...values.keys()].sort((a, b) => a - b);
  let sum = 0;
  let weights = 0;
  const means = steps.map((step) => {
    sum = smooth * sum + values.get(step);
    weights = smooth * weights + 1;
    return sum / weights;
  });
  return [steps, means];
}
