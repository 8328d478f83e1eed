// The cluster over time: plots, whose names lead to the rows that they count, a table and a CSV file.

import { apiUrl, call, now } from "./api.js";
import { byId, el, presses, setText } from "./dom.js";
import { keepInAddress } from "./filters.js";
import { reasons } from "./model.js";
import { Plot } from "./plots.js";
import { Poller } from "./poller.js";
import { natural } from "./sorting.js";
import { rowsTable } from "./table.js";
import { clock, duration, power, short } from "./words.js";

const POINTS = 240;
const FOLLOW = 60000; // the service takes a sample a minute
const MOST = 6; // series of a plot; more cannot be told apart
const LINES = [
  { color: "--plot-one" },
  { color: "--plot-two", dash: [8, 4] },
  { color: "--plot-three", dash: [2, 3] },
  { color: "--plot-four", dash: [12, 3, 2, 3] },
  { color: "--plot-five", dash: [5, 2] },
  { color: "--plot-total", dash: [2, 6] },
];
const SECONDS = [60, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];
const known = (value) => value !== null && value !== undefined;
const difference = (all, ...parts) => (known(all) ? Math.max(0, all - parts.reduce((sum, part) => sum + (part ?? 0), 0)) : null);

// Plots of the history's points: `field` is a number of the point, or a function of it, and `chosen` the filters
// of the rows that it counts.
/** @type {any[]} */
const COUNTED = [
  {
    title: "GPUs",
    stacked: true,
    series: [
      { field: "gpus_total", label: "in the cluster", color: "--plot-total", dash: [2, 4], width: 1.5, line: true },
      { field: "gpus_unusable", label: "not available", color: "--gpu-unknown-line", fill: "--gpu-drained", chosen: { state: "drained,down" } },
      { field: (at) => difference(at.gpus_total, at.gpus_unusable, at.gpus_allocated), label: "free", color: "--gpu-free-line", fill: "--gpu-free", chosen: { state: "free,off" } },
      { field: (at) => (known(at.gpus_busy) ? null : at.gpus_allocated), label: "held", color: "--gpu-allocated", fill: "--gpu-allocated", chosen: { state: "allocated" } },
      { field: (at) => (known(at.gpus_busy) ? difference(at.gpus_allocated, at.gpus_busy) : null), label: "idle", color: "--gpu-idle-stripe", fill: "--gpu-idle", chosen: { state: "idle" } },
      { field: "gpus_busy", label: "busy", color: "--gpu-busy", fill: "--gpu-busy", chosen: { state: "busy" } },
    ],
  },
  {
    title: "Jobs",
    more: true,
    series: [
      { field: "jobs_running", label: "running", color: "--plot-one", fill: "--plot-fill", chosen: { jobs: "running" } },
      { field: "jobs_pending", label: "waiting", color: "--plot-two", dash: [8, 4], chosen: { jobs: "pending" } },
    ],
  },
  {
    title: "Portal sessions",
    more: true,
    series: [
      { field: "sessions_running", label: "running", color: "--plot-one", fill: "--plot-fill", chosen: { jobs: "running", portal: "true" } },
      { field: "sessions_pending", label: "waiting", color: "--plot-two", dash: [8, 4], chosen: { jobs: "pending", portal: "true" } },
    ],
  },
];
// Plots of the quantities that are recorded by name.
/** @type {any[]} */
const NAMED = [
  { kind: "queue", title: "Waiting jobs", stacked: true, nothing: "No job waited.", of: queueOf },
  { kind: "wait", title: "Waiting time", words: duration, steps: SECONDS, nothing: "No job with GPUs started.", of: (name) => ({ label: name, sparse: true, chosen: { jobs: "running", type: name } }) },
  { kind: "power", title: "GPU power", words: power, stacked: true, of: (name) => ({ label: name, chosen: { type: name } }) },
];

function queueOf(name) {
  const at = name.lastIndexOf("/");
  const [partition, reason] = [name.slice(0, at), name.slice(at + 1)];
  return name ? { label: `${partition}: ${reasons[reason]}`, chosen: { jobs: "pending", partition, reason } } : { label: "others", chosen: { jobs: "pending" } };
}

export class History {
  #press; // the button of the shown range

  // `onChoose(filters)` shows the rows that a series counts.
  constructor(onChoose) {
    const given = new URLSearchParams(window.location.search).get("history");
    this.seconds = byId("history-range").querySelector(`[data-seconds="${CSS.escape(given ?? "")}"]`) ? Number(given) : 86400;
    this.zoom = null;
    // The button without a time ends the zoom.
    this.#press = presses(byId("history-range"), "seconds", (seconds = this.seconds) => {
      this.seconds = Number(seconds);
      keepInAddress({ history: this.seconds === 86400 ? "" : String(this.seconds) });
      this.#zoom(null);
    });
    byId("history-details").addEventListener("toggle", () => this.#table());
    byId("history-more").addEventListener("toggle", () => this.load());
    const [gpus, ...others] = COUNTED;
    this.plots = [gpus, ...NAMED, ...others].map((given) => {
      const place = el("div.plot");
      const nothing = el("p.portal-quiet.plot-nothing", { hidden: true }, given.nothing);
      const figure = el("figure", { dataset: { kind: given.kind } }, el("figcaption", given.title), place, nothing);
      byId(given.more ? "plots-more" : "plots").append(figure);
      const plot = new Plot(place, {
        ...given,
        height: 100,
        onZoom: (from, to) => this.#zoom([from, to]),
        onChoose: ({ chosen }) => onChoose(chosen),
      });
      return { ...given, figure, plot, nothing };
    });
    this.#marks();
    new Poller({ every: FOLLOW, ask: async () => { if (!this.zoom) await this.load(); } }).now();
  }

  get range() {
    return this.zoom ?? [now() - this.seconds, now()];
  }

  async load() {
    const range = this.range;
    const [start, end] = range;
    const query = { start: Math.floor(start), end: Math.ceil(end) };
    byId("history-csv").href = apiUrl("history.csv", { ...query, points: 1000 });
    try {
      // Not more points than minutes: there is a sample a minute.
      const points = Math.max(2, Math.min(POINTS, Math.floor((end - start) / 60)));
      const asked = { query: { ...query, points } };
      const [{ items }, named] = await Promise.all([call("history", asked), call("history/series", asked)]);
      const recorded = items.some((point) => point.gpus_total !== null);
      byId("plots").hidden = !recorded;
      byId("history-more").hidden = !recorded;
      setText(byId("history-words"), recorded ? "Select a name to see its rows; drag over a plot to zoom in." : "No data is recorded for this time range.");
      await Promise.all(this.plots.map((given) => (given.kind ? showNamed(given, named, range) : showCounted(given, items, range))));
    } catch (error) {
      setText(byId("history-words"), error.status === undefined ? "The plots cannot be drawn: the portal was installed without its plotting library." : error.message);
    }
    await this.#table();
  }

  #zoom(range) {
    this.zoom = range;
    this.#marks();
    this.load();
  }

  #marks() {
    this.#press(this.zoom ? "" : String(this.seconds));
    byId("history-back").hidden = !this.zoom;
  }

  async #table() {
    if (!byId("history-details").open) return;
    const [start, end] = this.range;
    const query = { start: Math.floor(start), end: Math.ceil(end), points: 24 };
    let items;
    try {
      ({ items } = await call("history", { query }));
    } catch {
      return; // load() reports the error
    }
    const fields = COUNTED.flatMap(({ title, series }) => series.map(({ field, label }) => [field, `${title} ${label}`]));
    byId("history-table").replaceChildren(
      rowsTable(
        { class: "list table-numbers", "aria-label": "Averages over equal intervals" },
        ["From", ...fields.map(([, label]) => label)],
        items.map((point) => [clock(point.at), ...fields.map(([field]) => (known(valueOf(point, field)) ? short(valueOf(point, field)) : "–"))]),
      ),
    );
  }
}

const valueOf = (point, field) => (typeof field === "function" ? field(point) : point[field]);

// Series without any value (busy GPUs without telemetry) are left out.
async function showCounted({ plot, series, more }, items, range) {
  if (more && !byId("history-more").open) return;
  const rows = series.map(({ field }) => items.map((point) => valueOf(point, field)));
  const shown = series.map((_, at) => at).filter((at) => rows[at].some(known));
  await plot.show([items.map(middle), ...shown.map((at) => rows[at])], range, shown.map((at) => series[at]));
}

async function showNamed({ figure, plot, kind, nothing, of, stacked }, answer, range) {
  const all = answer.series.filter((series) => series.kind === kind);
  const size = ({ values }) => Math.max(...values.map((value) => value ?? 0));
  const shown = all.sort((a, b) => size(b) - size(a)).slice(0, MOST).sort((a, b) => natural(a.name, b.name));
  // Power that no source tells has no plot.
  figure.hidden = kind === "power" && !shown.length;
  plot.place.hidden = !shown.length;
  nothing.hidden = shown.length > 0;
  if (!shown.length) return;
  const times = answer.at.map((at) => middle({ at, seconds: answer.seconds }));
  const series = shown.map(({ name }, at) => ({ ...LINES[at], ...of(name), fill: stacked ? LINES[at].color : undefined }));
  await plot.show([times, ...shown.map(({ values }) => values)], range, series);
}

const middle = ({ at, seconds }) => at + seconds / 2;
