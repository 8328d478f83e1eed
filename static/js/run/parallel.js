// Parallel coordinates of a run: an axis for each parameter and metric, and a line for each point. Axes
// are limited by dragging over them, or in fields.

import { el, fill, setText } from "../dom.js";
import { axesOf, short } from "./axes.js";
import { Limits } from "./limits.js";
import { Relation } from "./relations.js";
import { count } from "../words.js";

const MOST = 8; // axes of parameters, and of metrics
const LEAST_WIDTH = 108; // between two axes
const NEAR = 12; // pixels
const BRUSH = 12; // pixels beside an axis
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export class Parallel extends Relation {
  constructor(place, open) {
    super(place, open, { id: "parallel", labels: [], highlight: "Highlight" });
    this.nothing = "The points have reported no parameters and no metrics yet.";
    this.legend = el("p");
    this.words.before(this.legend);
    this.plot.classList.add("parallel");
    Object.assign(this.plot, { tabIndex: 0, role: "region", ariaLabel: "Plot of parallel coordinates" });
    const fields = el("div.parallel-fields");
    this.limits = new Limits(fields, () => this.#apply());
    place.append(el("details", el("summary", "Filter lines"), fields));
  }

  take(values) {
    this.values = values;
    this.points = values.items;
    this.axes = axesOf(values, MOST, this.metric);
    this.limits.offer(this.axes);
  }

  marks() {
    if (!this.axes.length) return [];
    const colour = this.#colours();
    return this.points.map((item) => {
      const given = this.axes.map(({ kind, index }) => item[kind][index]);
      const words = this.axes.flatMap(({ name }, at) => (given[at] === null ? [] : `${name} ${typeof given[at] === "number" ? short(given[at]) : given[at]}`));
      const name = `Point ${item.number}`;
      return { item, number: item.number, name, words: `${name}: ${words.join(", ")}`, at: this.axes.map((axis, at) => axis.at(given[at])), colour: colour(item) };
    });
  }

  scales() {
    const last = this.axes.length - 1;
    const width = Math.max(this.width, LEAST_WIDTH * (last + 1)) - 4;
    const margins = { marginTop: 34, marginBottom: 12, marginLeft: LEAST_WIDTH / 2, marginRight: LEAST_WIDTH / 2 };
    const ariaLabel = `Parallel coordinates of ${count(this.points.length, "point")}. Axes: ${this.axes.map(({ name }) => name).join(", ")}. The table has every number.`;
    return { ...margins, width, height: 320, ariaLabel, x: { axis: null, domain: [0, Math.max(1, last)] }, y: { axis: null, domain: [0, 1] } };
  }

  drawing(Plot, marks) {
    // Only between neighbouring axes on which the point has a value.
    const places = marks.flatMap(({ at, number, colour }) => at.map((y, x) => ({ x, y, number, colour })));
    const ticks = this.axes.flatMap((axis, x) => axis.ticks.map(([y, words]) => ({ x, y, text: cut(words, 14) })));
    const names = this.axes.map((axis, x) => ({ x, y: 1, text: cut(axis.name, 16), title: axis.log ? `${axis.name} (logarithmic)` : axis.name, kind: axis.kind }));
    const at = { x: "x", y: "y", text: "text" };
    const named = (kind) => Plot.text(names.filter((name) => name.kind === kind), { ...at, title: "title", dy: -20, fontSize: 13, fontWeight: kind === "metrics" ? 600 : 400 });
    return [
      Plot.line(places, { x: "x", y: "y", z: "number", stroke: "colour", className: "parallel-lines" }),
      Plot.ruleX(names, { x: "x" }),
      Plot.text(ticks, { ...at, dx: 6, textAnchor: "start", fontSize: 11, stroke: "var(--portal-surface)", fill: "currentColor" }),
      named("parameters"),
      named("metrics"),
    ];
  }

  // Colours the lines from the best value of the metric to the worst.
  #colours() {
    const scale = this.axes.find((each) => each.kind === "metrics" && each.name === this.metric);
    const [best, worst] = this.lowest ? ["lowest", "highest"] : ["highest", "lowest"];
    fill(this.legend, scale ? [el("span.parallel-best", best), " to ", el("span.parallel-worst", worst), ` ${this.metric}`] : null);
    return (item) => {
      const place = scale?.at(item.metrics[scale.index]) ?? null;
      if (place === null) return "var(--plot-total)";
      return `color-mix(in oklab, var(--plot-two) ${Math.round(100 * (this.lowest ? place : 1 - place))}%, var(--plot-one))`;
    };
  }

  drawn(figure, marks) {
    const { d3 } = window;
    const [x, y] = [figure.scale("x"), figure.scale("y")];
    const share = (top) => Math.min(1, Math.max(0, y.invert(top)));
    this.lines = marks.map((mark, at) => ({ mark, path: figure.querySelectorAll(".parallel-lines path")[at] }));
    this.brushes = this.axes.map((axis, at) => {
      const brush = d3.brushY().extent([[-BRUSH, y.apply(1) - 6], [BRUSH, y.apply(0) + 6]]);
      const group = d3.select(figure).append("g").attr("class", "parallel-brush").attr("transform", `translate(${x.apply(at)},0)`).call(brush);
      // A click removes the limit.
      brush.on("brush end", ({ selection, sourceEvent, type }) => {
        if (!sourceEvent) return; // it was not dragged
        if (selection) this.limits.between(axis, share(selection[1]), share(selection[0]));
        else this.limits.remove(axis);
        this.#apply(type === "brush" ? at : null);
      });
      return (span) => group.call(brush.move, span && [y.apply(span[1]) - 3, y.apply(span[0]) + 3]);
    });
    figure.addEventListener("pointermove", (event) => {
      const [left, top] = d3.pointer(event, figure);
      const at = Math.min(this.axes.length - 1, Math.max(0, x.invert(left)));
      const far = ({ mark, within }) => {
        const [from, to] = [mark.at[Math.floor(at)], mark.at[Math.ceil(at)]];
        return within && from !== null && to !== null ? Math.abs(y.apply(from + (at % 1) * (to - from)) - top) : Infinity;
      };
      const line = d3.least(this.lines, far);
      const near = line && far(line) < NEAR ? line.mark : null;
      if (near && near !== this.near) this.point(near);
      this.near = near;
    });
    figure.addEventListener("click", (event) => this.near && !event.target.closest(".parallel-brush") && this.open(this.near.number));
    this.#apply();
  }

  pick() {
    this.point(this.lines.find(({ mark }) => String(mark.number) === this.picker.select.value)?.mark);
  }

  point(mark) {
    super.point(mark);
    for (const line of this.lines) {
      line.path.classList.toggle("parallel-top", line.mark === mark);
      if (line.mark === mark) line.path.parentNode.append(line.path); // above the others
    }
  }

  // Lines outside of the limits are faint. `dragged`: the axis that is dragged over, whose brush shows that already.
  #apply(dragged = null) {
    this.brushes.forEach((show, at) => at !== dragged && show(this.limits.span(this.axes[at])));
    for (const line of this.lines) {
      line.within = this.limits.allow(line.mark.item);
      line.path.classList.toggle("parallel-faint", !line.within);
    }
    const { items, total } = this.values;
    const inside = this.lines.filter(({ within }) => within).length;
    const part = total > items.length ? ` of ${total.toLocaleString("en")}: the first in the table’s order` : "";
    setText(this.words, this.limits.any ? `${inside.toLocaleString("en")} of ${count(items.length, "point")}${part} within the limits` : `${count(items.length, "point")}${part}`);
  }
}
