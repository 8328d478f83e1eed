// Use of GPUs and memory by a run over time: the mean of its points, and in a band what most of them use.

import { call } from "../api.js";
import { el, fill } from "../dom.js";
import { PLOTS, drawUse, unmeasured } from "../use.js";
import { count } from "../words.js";
import { seldom } from "./views.js";

const EVERY = 60000; // the service takes a sample a minute

export class RunUse {
  constructor() {
    this.place = el("div");
    this.update = seldom(EVERY, (run) => this.#draw(run));
  }

  // Shows the use of a run while the details are open in which it stands.
  show(run) {
    if (!this.place.closest("[open]")) return;
    this.update(run).catch((error) => fill(this.place, el("p.portal-quiet", {}, error.message)));
  }

  async #draw(run) {
    const use = await call(`runs/${encodeURIComponent(run.id)}/use`, { query: { owner: run.mine ? undefined : run.user } });
    const times = use.gpu.mean.map((_, at) => use.began_at + (at + 0.5) * use.seconds);
    const plots = PLOTS.filter(([name]) => use[name].mean.some((value) => value !== null)).map(([name, given]) => ({
      ...given,
      title: `${given.title} of a point`,
      band: true,
      series: [
        { label: "90th percentile", color: "--plot-one", width: 1, dash: [2, 3] },
        { label: "10th percentile", color: "--plot-one", width: 1, dash: [2, 3] },
        { label: `mean of ${count(use.jobs, "point")}`, color: "--plot-one" },
      ],
      values: [times, use[name].high, use[name].low, use[name].mean],
    }));
    const place = el("div");
    fill(this.place, el("h2", {}, "Use over time"), place);
    if (!plots.length) fill(place, unmeasured());
    else await drawUse(place, use, plots);
  }
}
