// Columns of the table of points, and its order as the API has it.

import { now } from "../api.js";
import { el, hidden } from "../dom.js";
import { pill } from "../status.js";
import { measured } from "./axes.js";
import { metric, seconds, value } from "./view.js";

export const MOST = 8; // columns of metrics, and of parameters, that are shown unless chosen otherwise
const METRIC = "metric:"; // before a name, in the order of the table
const PARAMETER = "parameter:";

// All columns for these names, each with an `id`; `usual`: it is shown unless the user chose otherwise.
// `open(number)` shows a point's details.
export function columns(parameters, metrics, open) {
  const named = (names, kind, cell) => names.map((name, at) => ({ id: `${kind}${name}`, usual: at < MOST, head: name, sort: `${kind}${name}`, number: true, cell: (point) => cell(point, name) }));
  return [
    { id: "number", usual: true, head: "Point", sort: "number", number: true, paint: (cell, point) => number(cell, point, open) },
    { id: "state", usual: true, head: "State", sort: "state", cell: (point) => pill(point.state) },
    { id: "cell", usual: true, head: "Cell", sort: "cell", cell: (point) => el("span.nowrap", point.cell ? `${point.cell} of ${point.cells ?? "?"}` : "") },
    ...named(parameters, PARAMETER, (point, name) => value(point.parameters[name])),
    ...named(measured(metrics), METRIC, (point, name) => metric(point.metrics[name])),
    { id: "time", usual: true, head: "Time", sort: "seconds", number: true, cell: (point) => el("span.nowrap", seconds(point, now())) },
    { id: "job", usual: true, head: "Job", cell: (point) => point.job },
    { id: "message", usual: true, head: "Message", wide: true, cell: (point) => el("span.point-message", point.message) },
  ];
}

// The button stays the same element while the table is updated: it may have the focus. The best point's row is marked.
function number(cell, point, open) {
  if (!cell.firstChild) {
    const button = el("button.point-open", { type: "button", onclick: () => open(point.number) }, hidden("Point "), String(point.number));
    cell.append(el("span.point-best", { hidden: true }, "best"), " ", button);
  }
  cell.firstChild.hidden = !point.best;
  cell.parentElement.classList.toggle("row-best", point.best);
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
