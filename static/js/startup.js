// A session's startup steps: a table with a bar in each row, one after the other.

import { el } from "./dom.js";
import { duration } from "./words.js";

// "0.4 s", "12 s", "3 min"
const seconds = (value) => (value < 10 ? `${value.toFixed(1)} s` : duration(value));

// The table, or null if nothing is known. Waiting has no bar: it would dwarf all others.
export function startup(session) {
  const steps = session.startup?.steps.filter((step) => step.seconds > 0 || step.name === "queue") ?? [];
  if (!steps.length) return null;
  const whole = steps.reduce((sum, step) => sum + (step.name === "queue" ? 0 : step.seconds), 0);
  let before = 0;
  const rows = steps.map((step) => {
    const style = { marginLeft: `${(100 * before) / whole}%`, width: `${(100 * step.seconds) / whole}%` };
    const bar = step.name === "queue" ? null : el("span.startup-bar", { style });
    if (bar) before += step.seconds;
    return el(
      "tr",
      { dataset: { step: step.name } },
      el("th", { scope: "row" }, step.title),
      el("td.startup-time", seconds(step.seconds)),
      el("td.startup-place", { "aria-hidden": "true" }, bar),
    );
  });
  const ready = session.startup.ready;
  const words = ready === null ? "Startup" : `Startup: ready ${seconds(ready)} after launch`;
  return el(
    "table.startup",
    el("caption", words),
    el("thead.visually-hidden", el("tr", el("th", { scope: "col" }, "Step"), el("th", { scope: "col" }, "Time"), el("td"))),
    el("tbody", rows),
  );
}
