// The cluster over time: three plots, a table and a CSV file.

import { apiUrl, call, now } from "./api.js";
import { byId, el, setText } from "./dom.js";
import { keepInAddress } from "./filters.js";
import { Plot } from "./plots.js";
import { Poller } from "./poller.js";
import { clock, short } from "./words.js";

const POINTS = 240;
const FOLLOW = 60000; // the service takes a sample a minute
const PLOTS = [
  {
    title: "GPUs",
    series: [
      { field: "gpus_total", label: "in the cluster", color: "--plot-total", dash: [2, 4], width: 1.5 },
      { field: "gpus_allocated", label: "held by jobs", color: "--plot-one", fill: "--plot-fill" },
      { field: "gpus_busy", label: "busy", color: "--plot-two", dash: [8, 4] },
    ],
  },
  {
    title: "Jobs",
    series: [
      { field: "jobs_running", label: "running", color: "--plot-one", fill: "--plot-fill" },
      { field: "jobs_pending", label: "waiting", color: "--plot-two", dash: [8, 4] },
    ],
  },
  {
    title: "Portal sessions",
    series: [
      { field: "sessions_running", label: "running", color: "--plot-one", fill: "--plot-fill" },
      { field: "sessions_pending", label: "waiting", color: "--plot-two", dash: [8, 4] },
    ],
  },
];

export class History {
  constructor() {
    const given = new URLSearchParams(window.location.search).get("history");
    this.buttons = [...byId("history-range").querySelectorAll("[data-seconds]")];
    this.seconds = this.buttons.some((button) => button.dataset.seconds === given) ? Number(given) : 86400;
    this.zoom = null;
    byId("history-range").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      if (button.dataset.seconds) {
        this.seconds = Number(button.dataset.seconds);
        keepInAddress({ history: this.seconds === 86400 ? "" : String(this.seconds) });
      }
      this.#zoom(null);
    });
    byId("history-details").addEventListener("toggle", () => this.#table());
    this.plots = PLOTS.map(({ title, series }) => {
      const place = el("div.plot");
      byId("plots").append(el("figure", {}, el("figcaption", {}, title), place));
      return new Plot(place, { title, series, onZoom: (from, to) => this.#zoom([from, to]) });
    });
    this.#marks();
    // Nothing is fetched until the plots are visible.
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      new Poller({ every: FOLLOW, ask: async () => { if (!this.zoom) await this.load(); } }).now();
    }, { rootMargin: "300px" });
    seen.observe(byId("plots"));
  }

  get range() {
    return this.zoom ?? [now() - this.seconds, now()];
  }

  async load() {
    const [start, end] = this.range;
    const query = { start: Math.floor(start), end: Math.ceil(end) };
    byId("history-csv").href = apiUrl("history.csv", { ...query, points: 1000 });
    try {
      // Not more points than minutes: there is a sample a minute.
      const points = Math.max(2, Math.min(POINTS, Math.floor((end - start) / 60)));
      const { items } = await call("history", { query: { ...query, points } });
      const times = items.map((point) => point.at + point.seconds / 2);
      const known = items.some((point) => point.gpus_total !== null);
      byId("plots").classList.toggle("plots-empty", !known);
      setText(byId("history-words"), known ? "Drag over a plot to zoom in." : "No data is recorded for this time range.");
      await Promise.all(
        this.plots.map((plot, at) =>
          plot.show([times, ...PLOTS[at].series.map(({ field }) => items.map((point) => point[field]))], [start, end]),
        ),
      );
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
    for (const button of this.buttons) {
      button.setAttribute("aria-pressed", String(!this.zoom && Number(button.dataset.seconds) === this.seconds));
    }
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
    const fields = PLOTS.flatMap(({ title, series }) => series.map(({ field, label }) => [field, `${title} ${label}`]));
    byId("history-table").replaceChildren(
      el(
        "table.list",
        {},
        el("caption.visually-hidden", {}, "Averages over equal intervals"),
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "From"), fields.map(([, label]) => el("th.number", { scope: "col" }, label)))),
        el(
          "tbody",
          {},
          items.map((point) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, clock(point.at)),
              fields.map(([field]) => el("td.number", {}, point[field] === null ? "–" : short(point[field]))),
            ),
          ),
        ),
      ),
    );
  }
}
