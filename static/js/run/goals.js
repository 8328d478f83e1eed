// Which metric of runs counts, and whether its lowest value is best or its highest, as long as nobody chose otherwise. The
// service has the same rule for lists: portal/work/run/results/list_best.py.

import { measured } from "./axes.js";

// Metrics that count, and metrics of which more is better, by their usual names; of all others less is.
const FIRST = /loss|acc/i;
const HIGHER = /acc|auc|f1|score|precision|recall|reward|return|iou|dice|bleu|rouge|psnr|ssim|r2|throughput|per_s|speed/i;
const SEARCHED = { minimize: "lowest", maximize: "highest" };
export const GOALS = Object.values(SEARCHED);

// The metric that counts among `names`, "" if there is none: that of a search, else by its name. `searches`: of the runs,
// null of a run without one.
export function usualMetric(names, searches) {
  const metrics = measured(names);
  const searched = searches.map((search) => search?.metric).find((name) => metrics.includes(name));
  return searched ?? metrics.find((name) => FIRST.test(name)) ?? metrics[0] ?? "";
}

// "lowest" or "highest" as a search for this metric has it; undefined without one.
export const searchedGoal = (metric, searches) => SEARCHED[searches.find((search) => search?.metric === metric)?.direction];

// "lowest" or "highest" by the metric's name.
export const usualGoal = (metric) => (HIGHER.test(metric) && !/err|loss/i.test(metric) ? "highest" : "lowest");
