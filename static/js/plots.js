// Plots over time with uPlot, in the theme's colours; lines differ by their dashes too.

import { axisLook, color, describe, follow, library } from "./canvas.js";
import { el, hidden } from "./dom.js";

const SYNC = "portal-history";
const COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000];
const round = (value) => value.toLocaleString("en", { maximumFractionDigits: 1 });

// One plot in `place`. `series`: {label, color and fill (CSS variables), dash, width}; `stacked`: the values of
// each, but of a `line`, lie on those that follow it; `sparse`: its gaps are bridged;
// `band`: what lies between the first two is filled. `words(value)` is a value with its unit, `steps` those of
// its axis, `most` its end. `onZoom(from, to)` is called with the selected time range in seconds, `onChoose(series)` with the
// series whose name is clicked.
export class Plot {
  /** @param {any} place @param {any} given */
  constructor(place, { title, series = [], stacked = false, band = false, words = round, steps = COUNTS, onZoom, onChoose = null, most = null, height = 190 }) {
    this.place = place;
    this.title = title;
    this.series = series;
    this.stacked = stacked;
    this.band = band;
    this.words = words;
    this.steps = steps;
    this.most = most;
    this.onZoom = onZoom;
    this.onChoose = onChoose;
    this.height = height;
    this.values = null;
    follow(place, height, () => this.#draw(), () => this.plot);
  }

  // `values`: arrays of equal length, times (Unix seconds) first; null is a gap.
  async show(values, range, series = this.series) {
    this.library = await library();
    const same = this.plot && series.length === this.series.length && series.every(({ label }, at) => label === this.series[at].label);
    this.values = values;
    this.range = range;
    this.series = series;
    this.data = this.stacked ? stack(values, series) : values;
    if (same) {
      this.plot.setData(this.data);
      describe(this.place, this.#words());
    } else {
      this.#draw();
    }
  }

  #draw() {
    if (!this.values) return;
    this.plot?.destroy();
    const axis = axisLook();
    const options = {
      width: this.place.clientWidth || 300,
      height: this.height,
      tzDate: (at) => new Date(at * 1000),
      cursor: { sync: { key: SYNC }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: true, range: () => this.range }, y: { range: (_, __, most) => [0, this.most ?? Math.max(1, Math.ceil((most ?? 0) * 1.05))] } },
      axes: [
        { ...axis, size: 28, values: timeTicks },
        { ...axis, size: 52, space: 20, incrs: this.steps, values: (_, ticks) => ticks.map(this.words) },
      ],
      legend: { markers: { width: 2, dash: (_, at) => (this.series[at - 1]?.dash ? "dashed" : "solid") } },
      series: [
        { label: "Time", value: (_, at) => (at === null || at === undefined ? "" : legendTime(at)) },
        ...this.series.map((series, at) => ({
          label: this.#name(series),
          stroke: color(series.color),
          width: series.width ?? 2,
          dash: series.dash,
          fill: series.fill ? color(series.fill) : undefined,
          spanGaps: Boolean(series.sparse),
          points: { show: false, filter: (_, index) => (this.stacked ? null : this.#lonely(index, series.sparse)) },
          // Of a stack, its own part.
          value: (_, __, ___, index) => this.#value(at, index),
        })),
      ],
      bands: this.band ? [{ series: [1, 2], fill: color("--plot-fill") }] : [],
      hooks: {
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width < 6) return;
            const from = plot.posToVal(left, "x");
            const to = plot.posToVal(left + width, "x");
            plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            this.onZoom(from, to);
          },
        ],
      },
    };
    this.plot = new this.library(options, this.data, this.place);
    describe(this.place, this.#words());
  }

  // Values without a neighbour, which make no line, are points.
  #lonely(index, sparse) {
    const values = this.values[index];
    const known = values.flatMap((value, at) => (value === null || value === undefined ? [] : [at]));
    if (sparse) return known.length === 1 ? known : [];
    return known.filter((at, place) => known[place - 1] !== at - 1 && known[place + 1] !== at + 1);
  }

  // The value at the pointer, else the last one.
  #value(at, index) {
    const values = this.values[at + 1] ?? [];
    const value = index === null || index === undefined ? values.findLast((one) => one !== null) : values[index];
    return value === null || value === undefined ? "–" : this.words(value);
  }

  // The name in the legend; where it leads to rows, a button.
  #name(series) {
    if (!this.onChoose || !series.chosen) return series.label;
    const onclick = (event) => {
      event.stopPropagation(); // uPlot would hide the series
      this.onChoose(series);
    };
    return el("button.as-link", { type: "button", onclick }, series.label, hidden(" rows"));
  }

  // Describes the plot for screen readers.
  #words() {
    const parts = this.series.map((series, at) => {
      const values = this.values[at + 1].filter((value) => value !== null);
      if (!values.length) return `${series.label}: no data`;
      return `${series.label}: last ${this.words(values.at(-1))}, maximum ${this.words(Math.max(...values))}`;
    });
    return `${this.title}. ${parts.join("; ") || "No data"}.`;
  }
}

// Each value on those of the series that follow.
function stack([times, ...rows], series) {
  const below = times.map(() => 0);
  const stacked = rows.map((row, at) => [row, series[at].line]).reverse().map(([row, line]) =>
    line ? row : row.map((value, index) => (value === null ? null : (below[index] += value))),
  );
  return [times, ...stacked.reverse()];
}

const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const MONTH = new Intl.DateTimeFormat("en-GB", { month: "short", year: "numeric" });
const BOTH = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const legendTime = (at) => BOTH.format(new Date(at * 1000));

function timeTicks(plot, ticks) {
  const span = plot.scales.x.max - plot.scales.x.min;
  const midnight = (date) => date.getHours() === 0 && date.getMinutes() === 0;
  return ticks.map((tick) => {
    const date = new Date(tick * 1000);
    if (span > 150 * 86400) return MONTH.format(date);
    if (span > 3 * 86400 || midnight(date)) return DAY.format(date);
    return TIME.format(date);
  });
}
