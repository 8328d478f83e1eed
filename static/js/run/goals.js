// Whether a metric's lowest value is best or its highest: as the user chose for it last, else by its name.

import { Kept } from "../kept.js";

// Metrics of which more is better, by their usual names; of all others less is.
const HIGHER = /acc|auc|f1|score|precision|recall|reward|return|iou|dice|bleu|rouge|psnr|ssim|r2|throughput|per_s|speed/i;
const kept = new Kept("goals");
const usual = (metric) => (HIGHER.test(metric) && !/err|loss/i.test(metric) ? "highest" : "lowest");

// "lowest" or "highest"
export const goalOf = (metric) => (kept.all[metric] === "highest" || kept.all[metric] === "lowest" ? kept.all[metric] : usual(metric));
export const keepGoal = (metric, goal) => kept.keep(metric, goal);
