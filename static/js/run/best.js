// The metric that counts, and the point that is best by it. Both choices are kept in the page's address.

import { byId, el, fill } from "../dom.js";
import { keepInAddress } from "../filters.js";
import { metric as number, value } from "./view.js";

// Metrics of which more is better, by their usual names; of all others less is.
const HIGHER = /acc|auc|f1|score|precision|recall|reward|return|iou|dice|bleu|rouge|psnr|ssim|r2|throughput|per_s|speed/i;

export class Best {
  // `onChange()` after each choice; `open(number)` shows a point.
  constructor(onChange, open) {
    this.place = byId("best");
    this.open = open;
    this.metrics = byId("best-metric");
    this.goals = byId("best-goal");
    const given = new URLSearchParams(window.location.search);
    this.wanted = given.get("metric") ?? "";
    this.goal = ["lowest", "highest"].includes(given.get("goal")) ? given.get("goal") : "";
    this.metrics.addEventListener("change", () => {
      this.wanted = this.metrics.value;
      this.goal = "";
      this.#keep();
      onChange();
    });
    this.goals.addEventListener("change", () => {
      this.goal = this.goals.value;
      this.#keep();
      onChange();
    });
  }

  // The chosen metric, "" while there is none.
  get metric() {
    return this.metrics.value || this.wanted;
  }

  get lowest() {
    return (this.goal || usual(this.metric)) === "lowest";
  }

  // Offers the run's metrics. Returns whether the best point of another one must be read first.
  offer(run) {
    const before = this.metric;
    const names = run.metrics.join("\n");
    if (names !== this.names) {
      this.names = names;
      fill(this.metrics, run.metrics.map((name) => el("option", { value: name }, name)));
      const preferred = run.metrics.includes(this.wanted) ? this.wanted : run.metrics.find((name) => /loss|acc/i.test(name)) ?? run.metrics.find((name) => !["step", "epoch"].includes(name));
      this.metrics.value = preferred ?? run.metrics[0] ?? "";
    }
    byId("best-part").hidden = !run.metrics.length;
    this.goals.value = this.lowest ? "lowest" : "highest";
    return this.metric !== before;
  }

  // Names the best point of a run that was read with this metric.
  show(run) {
    const best = this.lowest ? run.lowest : run.highest;
    const key = JSON.stringify(best);
    if (key === this.shown) return; // the button keeps the focus
    this.shown = key;
    if (!best) {
      fill(this.place);
      return;
    }
    const names = Object.keys(best.parameters).sort();
    fill(
      this.place,
      el("strong", {}, "Best: "),
      el("button.point-open", { type: "button", onclick: () => this.open(best.number) }, `Point ${best.number}`),
      el("span", {}, ` with ${this.metric} `, number(best.value)),
      names.length ? parameters(best, names) : null,
    );
  }

  #keep() {
    this.shown = undefined;
    keepInAddress({ metric: this.wanted, goal: this.goal });
  }
}

const usual = (name) => (HIGHER.test(name) && !/err|loss/i.test(name) ? "highest" : "lowest");

const parameters = (best, names) =>
  el("span", {}, names.flatMap((name) => [` · ${name} `, el("strong", {}, value(best.parameters[name]))]));
