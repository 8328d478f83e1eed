// A metric against a parameter, as scatter, and against two, as heat map, with Observable Plot.

import { call } from "../api.js";
import { differs, el, empty, fill, setText } from "../dom.js";
import { count } from "../words.js";
import { axis, short } from "./axes.js";
import { Picker } from "./picker.js";
import { differing, inWords, metric as number } from "./view.js";

const HEIGHT = 380;
const BINS = 8; // of a number with more values, in the heat map
const LONGEST = 13; // characters at an axis
const LARGE = 20; // values of a metric beyond this ratio are on a logarithmic scale

// Observable Plot and D3 come from npm at installation (deploy/install.sh). They are loaded with the first plot.
// Both offer themselves to JupyterHub's RequireJS instead of the window, if that is in sight.
async function library() {
  const { define } = window;
  window.define = undefined;
  try {
    await import("../../vendor/plot/d3.min.js");
    await import("../../vendor/plot/plot.umd.min.js");
  } finally {
    window.define = define;
  }
  return window.Plot;
}

// A plot of a run's points with Observable Plot, and the picker of one.
export class Relation {
  // `open(number)` shows a point. `id` begins the ids of the fields, of which `labels` has one for each parameter.
  constructor(place, open, { id, labels, highlight }) {
    this.fields = labels.map((label, at) => {
      const select = el("select.form-select.form-select-sm", { id: `${id}-${at}`, onchange: () => this.draw() });
      return el("div.filter", el("label", { for: select.id }, label), select);
    });
    this.selects = this.fields.map((field) => field.querySelector("select"));
    this.words = el("p.portal-quiet", { role: "status" });
    this.plot = el("div.relation");
    place.append(el("div.plot-head.filters-tight", this.fields, this.words), this.plot);
    this.open = open;
    this.picker = new Picker(place, { id: `${id}-point`, label: highlight, onPick: () => this.pick(), onOpen: (key) => open(Number(key)) });
    this.library = null;
    this.points = null; // {number, value, parameters}, of those that have a value
    this.metric = "";
    this.lowest = true;
    this.best = null;
    this.nothing = "No point has reported both a parameter and this metric yet.";
    new ResizeObserver(() => this.plot.clientWidth !== this.width && this.draw()).observe(this.plot);
  }

  // `query`: filter and order of the points; `best`: the number of the best one by `metric`.
  async update(run, { metric, lowest, best, query }) {
    const values = await call(`runs/${encodeURIComponent(run.id)}/values`, { query });
    try {
      this.library ??= await library();
    } catch {
      setText(this.words, "The plot cannot be drawn: the portal was installed without its plotting library.");
      return;
    }
    if (!differs(this, [values, metric, lowest, best])) return;
    Object.assign(this, { metric, lowest, best });
    this.take(values);
    await this.draw();
  }

  // Takes the values of the points, and offers the parameters.
  take(values) {
    const at = values.metrics.indexOf(this.metric);
    const named = (item) => Object.fromEntries(values.parameters.map((name, index) => [name, item.parameters[index]]).filter(([, value]) => value !== null));
    this.points = values.items.map((item) => ({ number: item.number, value: item.metrics[at] ?? null, parameters: named(item) })).filter(({ value }) => value !== null);
    const varied = differing(this.points.map(({ parameters }) => parameters));
    const names = varied.length < this.selects.length ? values.parameters : varied;
    this.selects.forEach((select, at) => {
      const chosen = select.value;
      fill(select, names.map((name) => el("option", { value: name }, name)));
      select.value = names.includes(chosen) ? chosen : (names[at] ?? names[0] ?? "");
    });
  }

  async draw() {
    if (!this.points) return;
    this.width = this.plot.clientWidth;
    const names = this.selects.map((select) => select.value);
    const axes = names.map((name) => axis(name, this.points.map(({ parameters }) => parameters[name])));
    const same = new Set(names).size < names.length;
    const marks = same ? [] : this.marks(axes);
    if (!marks.length) {
      fill(this.plot, empty(same && names[0] ? "Choose two different parameters." : this.nothing));
      return;
    }
    this.picker.offer(marks.map(({ number: key, name }) => ({ key: String(key), name })));
    const picked = marks.find((mark) => String(mark.number) === this.picker.select.value);
    const figure = this.library.plot({
      width: Math.max(280, this.width),
      height: HEIGHT,
      marginLeft: 90,
      marginBottom: 44,
      className: "relation-plot",
      ariaLabel: `${this.metric} by ${names.join(" and ")}: ${count(this.points.length, "point")}. The table has every number.`,
      ...this.scales(axes, this.#valueScale(marks)),
      marks: this.drawing(this.library, marks, picked),
    });
    for (const style of figure.querySelectorAll("style")) style.remove(); // runs.css has them: the page's policy refuses others
    describe(figure);
    fill(this.plot, figure);
    this.drawn(figure, marks);
    this.point(picked);
  }

  // Follows the pointer on the plot.
  /** @param {any} figure @param {any[]} _marks */
  drawn(figure, _marks) {
    figure.addEventListener("input", () => {
      describe(figure); // the tip is new
      if (figure.value) this.point(figure.value);
    });
    figure.addEventListener("click", () => figure.value && this.open(figure.value.number));
    setText(this.words, count(this.points.length, "point"));
  }

  // A point was chosen in the list.
  pick() {
    this.draw();
  }

  point(mark) {
    this.picker.show(mark ? String(mark.number) : "", mark ? mark.words : "");
  }

  // What is drawn of the points, {number, name, value, words, …} each; the scales, and the marks of the plot. `axes`: of
  // the chosen parameters; `values`: the metric's scale.
  /** @param {any[]} axes @returns {any[]} */
  marks(axes) {
    return axes;
  }

  /** @param {any[]} axes @param {any} values @returns {any} */
  scales(axes, values) {
    return [axes, values];
  }

  /** @param {any} Plot @param {any[]} marks @param {any} picked @returns {any[]} */
  drawing(Plot, marks, picked) {
    return [Plot, marks, picked];
  }

  // The metric's scale, for what is drawn.
  #valueScale(marks) {
    const values = marks.map(({ value }) => value);
    const [least, most] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    return { label: this.metric, ...scale(least > 0 && most / least > LARGE), domain: [least, most] };
  }
}

export class Scatter extends Relation {
  constructor(place, open) {
    super(place, open, { id: "scatter", labels: ["Parameter"], highlight: "Highlight" });
  }

  marks([x]) {
    return this.points
      .filter(({ parameters }) => x.at(parameters[x.name]) !== null)
      .map(({ number: key, value, parameters }) => ({
        number: key,
        name: `Point ${key}`,
        x: x.numbers ? parameters[x.name] : String(parameters[x.name]),
        value,
        words: `Point ${key}: ${this.metric} ${number(value)} with ${inWords(parameters)}`,
      }));
  }

  scales([x], y) {
    const across = x.numbers ? scale(x.log) : { type: "point", domain: x.texts, tickFormat: shortened };
    return { x: { label: x.name, ...across }, y, grid: true, inset: 10 };
  }

  drawing(Plot, marks, picked) {
    const at = { x: "x", y: "value" };
    return [
      Plot.dot(marks, { ...at, r: 4, fill: "var(--plot-one)", fillOpacity: 0.75 }),
      Plot.dot(marks.filter((mark) => mark.number === this.best), { ...at, r: 9, stroke: "var(--plot-two)", strokeWidth: 3 }),
      Plot.dot(picked ? [picked] : [], { ...at, r: 7, stroke: "currentColor", strokeWidth: 2 }),
      Plot.tip(marks, Plot.pointer({ ...at, title: "words" })),
    ];
  }
}

export class HeatMap extends Relation {
  constructor(place, open) {
    super(place, open, { id: "heat", labels: ["Across", "Down"], highlight: "Cell" });
  }

  // A cell for each pair of values, or of ranges, with the best of its points.
  marks(axes) {
    this.bins = axes.map(binned);
    const labels = ({ parameters }) => this.bins.map(({ label }, at) => label(parameters[axes[at].name]));
    const cells = Map.groupBy(this.points.filter((point) => !labels(point).includes(null)), (point) => JSON.stringify(labels(point)));
    return [...cells.values()].map((points) => {
      const best = points.reduce((a, b) => ((this.lowest ? b.value < a.value : b.value > a.value) ? b : a));
      const [x, y] = labels(best);
      const name = `${axes[0].name} ${x}, ${axes[1].name} ${y}`;
      const words = `${name}: ${this.lowest ? "lowest" : "highest"} ${this.metric} of ${count(points.length, "point")} ${number(best.value)}, point ${best.number}`;
      return { number: best.number, name, x, y, value: best.value, words };
    });
  }

  scales(axes, values) {
    const [x, y] = axes.map(({ name, numbers }, at) => ({ label: name, domain: this.bins[at].domain, type: "band", reverse: at === 1 && numbers, tickFormat: shortened }));
    return { x, y, color: { ...values, scheme: "viridis", reverse: this.lowest, legend: true } };
  }

  drawing(Plot, marks, picked) {
    const at = { x: "x", y: "y" };
    return [
      Plot.cell(marks, { ...at, fill: "value", inset: 1 }),
      Plot.cell(picked ? [picked] : [], { ...at, stroke: "currentColor", strokeWidth: 3 }),
      Plot.tip(marks, Plot.pointer({ ...at, title: "words" })),
    ];
  }
}

// A plot is one picture with one name; its legend adds nothing to the words.
function describe(figure) {
  for (const picture of figure.matches("svg") ? [figure] : figure.querySelectorAll("svg")) {
    if (picture.hasAttribute("aria-label")) picture.setAttribute("role", "img");
    else picture.setAttribute("aria-hidden", "true");
    for (const part of picture.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
  }
}

const shortened = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

// A scale of numbers. Of a logarithmic one, D3 knows which ticks have room for words.
const scale = (log) => (log ? { type: "log", tickFormat: "~g" } : { type: "linear", tickFormat: (value) => short(value) });

// The values of an axis as texts in their order: those of many numbers are ranges of equal width on it.
function binned(axis) {
  if (!axis.numbers) return { domain: axis.texts, label: (value) => (axis.at(value) === null ? null : String(value)) };
  if (axis.values.length <= BINS) return { domain: axis.values.map(short), label: (value) => (axis.at(value) === null ? null : short(value)) };
  const ranges = Array.from({ length: BINS }, (_, bin) => `${short(axis.value(bin / BINS))}–${short(axis.value((bin + 1) / BINS))}`);
  return { domain: ranges, label: (value) => (axis.at(value) === null ? null : ranges[Math.min(BINS - 1, Math.floor(axis.at(value) * BINS))]) };
}
