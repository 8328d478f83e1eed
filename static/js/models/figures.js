// A model over time: requests, times, tokens, replicas, and the use of its GPUs.

import { apiUrl, call, now } from "../api.js";
import { byId, el, fill, setText } from "../dom.js";
import { Plot } from "../plots.js";
import { seldom } from "../run/views.js";
import { showUse } from "../use.js";
import { count, gpuTime } from "../words.js";
import { pathOf } from "./words.js";

const EVERY = 60000; // the service adds a row a minute
const MOST_USES = 4; // replicas whose use is drawn
const rate = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
const STEPS = Array.from({ length: 9 }, (_, zeros) => [1, 2, 5].map((digit) => digit * 10 ** (zeros - 2))).flat();
/** @type {any[]} */
const PLOTS = [
  { title: "Requests per second", words: rate, series: [["requests", "requests", "--plot-one"], ["errors", "errors", "--plot-two", [8, 4]]] },
  { title: "Time of an answer in ms", words: rate, factor: 1000, series: [["p50", "half within", "--plot-one"], ["p95", "95 % within", "--plot-two", [8, 4]]] },
  { title: "Replicas", words: rate, series: [["replicas", "jobs that run", "--plot-total", [2, 4]], ["ready", "ready", "--plot-one"], ["waiting", "requests that wait", "--plot-two", [8, 4]]] },
  { title: "GPUs held", words: rate, series: [["gpus", "GPUs", "--plot-one"]], only: "gpus" },
  { title: "Tokens per second", words: rate, series: [["tokens", "tokens", "--plot-one"]], only: "tokens" },
];

export class FiguresOverTime {
  constructor(name) {
    this.name = name;
    this.hours = byId("figures-hours");
    this.hours.value = "1";
    this.hours.addEventListener("change", () => this.#draw().catch(() => {}));
    this.update = seldom(EVERY, () => this.#draw());
  }

  // Draws what is new; `model` names the jobs whose use is shown.
  async show(model) {
    this.model = model;
    await this.update(model, model.replicas.filter(({ state }) => state === "ready").map(({ job_id }) => job_id));
  }

  async #draw() {
    const path = /** @type {`models/${string}/figures`} */ (`${pathOf(this.name)}/figures`);
    const since = now() - 3600 * Number(this.hours.value);
    byId("figures-csv").href = apiUrl(`${path}.csv`, { since });
    /** @type {any} */
    const told = await call(path, { query: { since } });
    const { items, seconds } = told;
    const words = [count(told.requests, "request"), count(told.errors, "error"), told.tokens ? count(told.tokens, "token") : "", gpuTime(told.gpu_hours)];
    setText(byId("figures-words"), items.length ? words.filter(Boolean).join(", ") : "Nothing was measured yet: the portal measures a model that runs once a minute.");
    if (items.length) await this.#plots(told, items, seconds);
    else fill(byId("figures"));
    const ready = this.model?.replicas.filter(({ state, job_id }) => state === "ready" && job_id) ?? [];
    const uses = await Promise.all(ready.slice(0, MOST_USES).map(({ job_id: id }) => useOf(id)));
    const rest = ready.length - MOST_USES;
    fill(byId("use"), uses.flat(), rest > 0 ? el("p.text-body-secondary", `${count(rest, "further replica")}: their jobs' pages have their use.`) : null);
  }

  async #plots({ began_at, ended_at }, items, seconds) {
    const rows = gapped(items, seconds);
    const shown = PLOTS.filter(({ only }) => !only || items.some((item) => item[only]));
    const plots = shown.map(({ title, words, factor = 1, series }) => {
      const chart = el("div.plot");
      const lines = series.map(([, label, color, dash]) => ({ label, color, dash }));
      const plot = new Plot(chart, { title, series: lines, words, steps: STEPS, height: 150, onZoom: () => {} });
      const values = [rows.map(({ at }) => at + seconds / 2), ...series.map(([field]) => rows.map((row) => (row[field] ?? null) && factor * row[field]))];
      return { figure: el("figure", el("figcaption", title), chart), show: () => plot.show(values, [began_at, ended_at]) };
    });
    fill(byId("figures"), el("div.plots", plots.map(({ figure }) => figure)));
    await Promise.all(plots.map(({ show }) => show()));
  }
}

// A row without values after each time in which nothing was measured, so that no line crosses it.
function gapped(items, seconds) {
  return items.flatMap((item, at) => (at && item.at - items[at - 1].at > 1.5 * seconds ? [{ at: items[at - 1].at + seconds }, item] : [item]));
}

// The use of a replica's job, or nothing where it is not measured.
async function useOf(id) {
  const place = el("div");
  const measured = await showUse(place, `jobs/${encodeURIComponent(id)}`).catch(() => false);
  return measured ? [el("h3.mt-3", `Use of job ${id}`), place] : [];
}
