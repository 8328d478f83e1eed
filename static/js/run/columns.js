// Columns of the table of points, and its order as the API has it.

import { now } from "../api.js";
import { el, hidden } from "../dom.js";
import { pill } from "../status.js";
import { metric, seconds, value } from "./view.js";

export const MOST = 8; // columns of metrics, and of parameters
const METRIC = "metric:"; // before a name, in the order of the table
const PARAMETER = "parameter:";

// The columns for these names. `open(number)` shows a point's details.
export function columns(parameters, metrics, open) {
  return [
    { head: "Point", sort: "number", number: true, paint: (cell, point) => number(cell, point, open) },
    { head: "State", sort: "state", cell: (point) => pill(point.state) },
    { head: "Cell", sort: "cell", cell: (point) => (point.cell ? `${point.cell} of ${point.cells ?? "?"}` : "") },
    ...parameters.slice(0, MOST).map((name) => ({ head: name, sort: `${PARAMETER}${name}`, number: true, cell: (point) => value(point.parameters[name]) })),
    ...metrics.slice(0, MOST).map((name) => ({ head: name, sort: `${METRIC}${name}`, number: true, cell: (point) => metric(point.metrics[name]) })),
    { head: "Time", sort: "seconds", number: true, cell: (point) => seconds(point, now()) },
    { head: "Job", cell: (point) => point.job },
    { head: "Message", wide: true, cell: (point) => el("span.point-message", {}, point.message) },
  ];
}

// The button stays the same element while the table is updated: it may have the focus.
function number(cell, point, open) {
  if (cell.firstChild) return;
  cell.append(el("button.point-open", { type: "button", onclick: () => open(point.number) }, hidden("Point "), String(point.number)));
}

// The query of a table's order, such as "-metric:loss".
export function order(sort) {
  const down = sort.startsWith("-") ? "-" : "";
  const name = sort.replace(/^-/, "");
  for (const [kind, start] of [["metric", METRIC], ["parameter", PARAMETER]]) {
    if (name.startsWith(start)) return { sort: `${down}${kind}`, [kind]: name.slice(start.length) };
  }
  return { sort };
}
