// The search of a run, in its facts: what it makes large or small, and the best point so far.

import { metric } from "./view.js";
import { el } from "../dom.js";

// The facts of a run's search; none of a run without one.
export function searchFacts(run) {
  const { search } = run;
  if (!search) return [];
  const { best } = search;
  return [
    ["Search", `${search.direction} ${search.metric} by ${search.parameters.join(", ")}`],
    [
      run.ended_at === null ? "Best so far" : "Best",
      best === null
        ? "no point has a value yet"
        : el("span", `point ${best.point}: ${search.metric} `, metric(best.value), ` with ${words(best.parameters)}`),
    ],
  ];
}

// "lr = 0.0123457, opt = adam"
function words(parameters) {
  return Object.entries(parameters)
    .map(([name, value]) => `${name} = ${typeof value === "number" ? metric(value) : value}`)
    .join(", ");
}
