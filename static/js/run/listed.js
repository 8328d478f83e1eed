// Cells of a run in the list: its file, its best point with the sparkline of that point's curve, its resources.

import { facts, now } from "../api.js";
import { differs, el, hidden } from "../dom.js";
import { shortPath } from "../paths.js";
import { spaceOf } from "../space.js";
import { sparkline } from "../spark.js";
import { count, duration } from "../words.js";
import { metric } from "./view.js";

// Painted once: it keeps the focus.
export function nameCell(cell, run) {
  if (cell.firstChild) return;
  cell.append(
    el("a.first", { href: `${facts.prefix}runs/${encodeURIComponent(run.id)}` }, run.name),
    el("span.second.path", shortPath(run.source, run.user)),
  );
}

// `best`: as run-bests has it; undefined: not known yet, null: no point has a metric.
export function bestCell(cell, best) {
  if (!differs(cell, best ?? null)) return;
  if (!best) {
    cell.replaceChildren(el("span.portal-quiet", "–", hidden("no metric")));
    return;
  }
  const words = `${best.lowest ? "Lowest" : "Highest"} ${best.metric}: point ${best.point}`;
  cell.replaceChildren(
    el(
      "span.run-best-cell",
      { title: words },
      el("span", el("span.first", metric(best.value)), el("span.second", best.metric)),
      sparkline(best.curve),
      hidden(` ${words}`),
    ),
  );
}

// The environment of a run, the space whose rules it follows, and the resources of each point.
export function environmentCell(run) {
  const space = spaceOf(run);
  return el(
    "span",
    el("span.first", run.environment),
    el("span.second", [resources(run.resources), space ? space.join(" ") : ""].filter(Boolean).join(", ")),
  );
}

// "1 × v100, 4 CPUs, 8 GB, 2 nodes"
function resources({ gpus, gpu_type: type, cpus, memory, nodes }) {
  return [
    gpus ? `${gpus} × ${type || "GPU"}` : "",
    cpus ? count(cpus, "CPU") : "",
    memory ? String(memory).replace(/([KMGT])$/i, " $1B") : "",
    nodes > 1 ? count(nodes, "node") : "",
  ].filter(Boolean).join(", ");
}

// From its newest launch to its end, or until now.
export const lasted = (run) => el("span.nowrap", duration((run.ended_at ?? now()) - (run.again_at ?? run.created_at)));
