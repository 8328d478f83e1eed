// Two fields: the metric of runs that counts, and whether its lowest value is best or its highest. Both choices are kept
// in the page's address, and the direction of each metric for the user; without them, the rule of goals.js holds.

import { differs, el, fill } from "../dom.js";
import { keepInAddress } from "../filters.js";
import { Kept } from "../kept.js";
import { measured } from "./axes.js";
import { GOALS, searchedGoal, usualGoal, usualMetric } from "./goals.js";

const kept = new Kept("goals");

export class MetricChoice {
  // `metrics` and `goals` are selects; `onChange()` after each choice.
  constructor(metrics, goals, onChange) {
    const given = new URLSearchParams(window.location.search);
    this.metrics = metrics;
    this.goals = goals;
    this.searches = []; // of the runs; null of a run without one
    this.wanted = given.get("metric") ?? "";
    this.chosen = given.get("goal") ?? "";
    const changed = (wanted, goal) => {
      Object.assign(this, { wanted, chosen: goal });
      keepInAddress({ metric: wanted, goal });
      goals.value = this.goal;
      onChange();
    };
    metrics.addEventListener("change", () => changed(metrics.value, ""));
    goals.addEventListener("change", () => {
      kept.keep(this.metric, goals.value);
      changed(this.wanted, goals.value);
    });
  }

  // The metric that counts, "" while there is none.
  get metric() {
    return this.metrics.value || this.wanted;
  }

  // "lowest" or "highest"
  get goal() {
    return this.goalOf(this.metric);
  }

  // As chosen here, else as a search for this metric has it, else as the user chose last, else by its name.
  goalOf(metric) {
    const known = [metric === this.metric ? this.chosen : "", searchedGoal(metric, this.searches), kept.all[metric]];
    return known.find((goal) => GOALS.includes(goal)) ?? usualGoal(metric);
  }

  // Offers the metrics among `names`, and chooses that of the address, else the usual one. Returns them.
  offer(names, searches) {
    this.searches = searches;
    const metrics = measured(names);
    if (differs(this.metrics, metrics)) {
      fill(this.metrics, metrics.map((name) => el("option", { value: name }, name)));
      this.metrics.value = metrics.includes(this.wanted) ? this.wanted : usualMetric(names, searches);
    }
    this.goals.value = this.goal;
    return metrics;
  }
}
