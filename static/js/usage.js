// GPU-hours by week or month: a chart, a table and a CSV file.

import { apiUrl, call, now } from "./api.js";
import { byId, el, setText, trouble } from "./dom.js";
import { followForm, sortInAddress } from "./filters.js";
import { Pager } from "./pager.js";
import { Table } from "./table.js";
import { count, duration, hours, share } from "./words.js";

const NONE = { "": "none", environment: "no portal environment", group: "no known group", course: "no course or project" };
const LENGTH = { week: 7, month: 30.44 }; // days
const pager = new Pager(byId("list-pager"), 50, load);
const values = followForm(byId("filters"), () => load(true));
let most = 1;
let drawn = () => {};
new ResizeObserver(() => drawn()).observe(byId("list"));
const table = new Table(byId("list"), {
  label: "list-title",
  ...sortInAddress("-period", () => load(true)),
  columns: [
    { head: "Period", sort: "period", cell: (row) => periodWords(row.period) },
    { head: "Name", sort: "key", cell: (row) => row.key || el("span.unknown", NONE[values.by || "environment"] ?? NONE[""]) },
    { head: "Jobs", sort: "jobs", number: true, cell: (row) => row.jobs.toLocaleString("en") },
    { head: "Held", sort: "held_hours", number: true, cell: (row) => hours(row.held_hours) },
    { head: "Used", sort: "used_hours", number: true, cell: (row) => measured(row.used_hours) },
    { head: "Idle", sort: "idle_hours", number: true, cell: (row) => measured(row.idle_hours) },
    { head: "Measured", sort: "measured_share", number: true, cell: (row) => share(row.measured_share) },
    { head: "GPU-hours", cell: bar, wide: true },
  ],
});

const measured = (value) => (value === null ? el("span.unknown", "not measured") : hours(value));

// "2026-W47" is a week of ISO 8601, "2026-11" a month.
function periodWords(period) {
  const week = /^(\d+)-W(\d+)$/.exec(period);
  if (week) return `Week ${Number(week[2])}, ${week[1]}`;
  const [year, month] = period.split("-").map(Number);
  return new Intl.DateTimeFormat("en-GB", { month: "short", year: "numeric" }).format(new Date(year, month - 1));
}

// The parts of the held GPU-hours: used, idle, not measured.
function parts(row) {
  const used = row.used_hours ?? 0;
  const idle = row.idle_hours ?? 0;
  return { used, idle, open: Math.max(0, row.held_hours - used - idle) };
}

function bar(row) {
  return el("span.usage-bar", { "aria-hidden": "true" }, pieces("span", parts(row), "width", most));
}

// The parts of a bar that is as long as `whole`, each with its share.
const pieces = (tag, given, side, whole) =>
  Object.entries(given)
    .filter(([, value]) => value > 0)
    .map(([name, value]) => el(`${tag}.column-${name}`, { style: { [side]: `${(100 * value) / whole}%` } }));

async function load(first = false) {
  if (first) pager.first();
  const period = values.period || "week";
  const days = (Number(values.last) || 12) * LENGTH[period];
  const query = { period, text: values.text, start: Math.floor(now() - days * 86400) };
  const path = values.by ? "usage" : "usage/mine";
  const whole = { ...query, by: values.by, sort: table.sort };
  byId("list-csv").href = apiUrl(`${path}.csv`, whole);
  try {
    const [page, all] = await Promise.all([
      pager.read((place) => call(path, { query: { ...whole, ...place } })),
      // Totals: by course each job counts once, and there are few courses.
      call(path, { query: { ...query, text: "", by: values.by && "course", limit: 500 } }),
    ]);
    byId("troubles").replaceChildren();
    most = Math.max(...page.items.map((row) => row.held_hours), 0.001);
    setText(byId("list-count"), count(page.total, "row"));
    table.show(page.items, values.text ? "No usage matches this search." : "No jobs held GPUs in this period.");
    byId("simulated").hidden = !page.simulated;
    drawn = () => chart(all.items, period, query.start);
    drawn();
  } catch (error) {
    byId("troubles").replaceChildren(trouble(error.message));
  }
}

// The period that contains a time, in UTC as in the service: "2026-W47" (ISO 8601) or "2026-11".
function periodOf(seconds, period) {
  const date = new Date(seconds * 1000);
  if (period === "month") return date.toISOString().slice(0, 7);
  date.setUTCDate(date.getUTCDate() + 4 - (date.getUTCDay() || 7)); // its week's Thursday names the year
  const week = Math.ceil(((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86400000 + 1) / 7);
  return `${date.getUTCFullYear()}-W${String(week).padStart(2, "0")}`;
}

function chart(rows, period, start) {
  const sums = new Map();
  for (let at = start; at <= now(); at += 86400) {
    const name = periodOf(at, period);
    if (rows.length && !sums.has(name)) sums.set(name, { period: name, held_hours: 0, used_hours: 0, idle_hours: 0 });
  }
  for (const row of rows) {
    const sum = sums.get(row.period) ?? { period: row.period, held_hours: 0, used_hours: 0, idle_hours: 0 };
    sum.held_hours += row.held_hours;
    sum.used_hours += row.used_hours ?? 0;
    sum.idle_hours += row.idle_hours ?? 0;
    sums.set(row.period, sum);
  }
  const periods = [...sums.values()].sort((a, b) => a.period.localeCompare(b.period));
  byId("chart-part").hidden = !periods.length;
  const top = Math.max(...periods.map((sum) => sum.held_hours), 0.001);
  const total = periods.reduce((sum, part) => sum + part.held_hours, 0);
  const used = periods.reduce((sum, part) => sum + part.used_hours, 0);
  const idle = periods.reduce((sum, part) => sum + part.idle_hours, 0);
  setText(byId("chart-words"), `${values.by ? "All users" : "You"}: ${hours(total)} held${used + idle > 0 ? `, ${hours(used)} used, ${hours(idle)} idle` : ""}.`);
  byId("chart").setAttribute("aria-label", `GPU-hours held: ${periods.map((sum) => `${periodWords(sum.period)} ${hours(sum.held_hours)}`).join("; ")}. See the table for details.`);
  const room = Math.max(1, Math.floor(byId("chart").clientWidth / 46)); // columns with room for labels
  const every = Math.ceil(periods.length / room);
  byId("chart").replaceChildren(
    ...periods.map((sum, at) => {
      const named = (periods.length - 1 - at) % every === 0;
      return el(
        "div.column",
        { title: `${periodWords(sum.period)}: ${hours(sum.held_hours)} GPU-hours held` },
        el("span.column-number", named && sum.held_hours ? hours(sum.held_hours) : ""),
        el("div.column-stack", pieces("div", parts(sum), "height", top)),
        el("span.column-name", named && periodWords(sum.period).replace(/, \d+$/, "").replace("Week ", "W ")),
      );
    }),
  );
}

// Errors of the start estimates; the section is present for users who may see all usage.
const SOURCES = {
  slurm: "Slurm’s estimate",
  larger: "Slurm’s estimate for a larger request",
  snapshot: "Free resources",
  queue: "Queue",
  waits: "Recorded wait times",
  limit: "User limit",
  unknown: "No estimate",
};

function lateness(row) {
  if (row.median === null) return el("span.unknown", "no estimate");
  if (Math.abs(row.median) < 1) return "as estimated";
  return `${duration(Math.abs(row.median))} ${row.median > 0 ? "later" : "earlier"}`;
}

async function loadEstimates() {
  const errors = new Table(byId("estimates"), {
    label: "estimates-title",
    columns: [
      { head: "Partition", cell: (row) => row.partition || el("span.unknown", "Slurm’s choice") },
      { head: "Source", cell: (row) => SOURCES[row.basis] ?? row.basis },
      { head: "Sessions", number: true, cell: (row) => row.sessions.toLocaleString("en") },
      { head: "Median", number: true, cell: lateness },
      { head: "Median error", number: true, cell: (row) => (row.median_absolute === null ? "" : duration(row.median_absolute)) },
      { head: "Within 10 minutes", number: true, cell: (row) => (row.within_ten_minutes === null ? "" : share(row.within_ten_minutes)) },
    ],
  });
  try {
    const { total, items } = await call("estimates/errors", {});
    errors.show(items, "No session has started since recording began.");
    const said = total.sessions - total.unknown;
    setText(
      byId("estimates-words"),
      said
        ? `${count(said, "session")}: ${share(total.within_ten_minutes)} started within 10 minutes of the estimate, half of them within ${duration(total.median_absolute)}.`
        : "",
    );
  } catch (error) {
    byId("estimates").replaceChildren(trouble(error.message));
  }
}

load();
if (byId("estimates")) loadEstimates();
