// One run and its points. The page is updated until the run has ended.

import { call, now } from "../api.js";
import { ask, tell } from "../dialog.js";
import { byId, el, fill, setText, showTrouble } from "../dom.js";
import { followForm, keepInAddress } from "../filters.js";
import { Pager } from "../pager.js";
import { facts as factList } from "../panel.js";
import { Poller } from "../poller.js";
import { badge, metric, points, pointWords, seconds, time } from "./view.js";
import { Table } from "../table.js";
import { count, exactly } from "../words.js";

const LIMIT = 100;
const EVERY = 5000;
const MOST_METRICS = 8; // columns
const METRIC = "metric:"; // before a metric's name, in the order of the table
const main = byId("run");
const { id } = main.dataset;
const pager = new Pager(byId("list-pager"), LIMIT, () => poller.now());
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });
let values = followForm(byId("filters"), (fresh) => {
  values = fresh;
  pager.first();
  poller.now();
});
let sort = new URLSearchParams(window.location.search).get("sort") || "number";
let metrics = null; // names of the table's columns; null: there is no table yet
let table;

function makeTable(names) {
  metrics = names.join("\n");
  table = new Table(byId("list"), {
    label: "list-title",
    key: (point) => String(point.number),
    sort,
    onSort: (chosen) => {
      sort = chosen;
      keepInAddress({ sort: sort === "number" ? "" : sort });
      pager.first();
      poller.now();
    },
    columns: [
      { head: "Point", sort: "number", number: true, cell: (point) => String(point.number) },
      { head: "State", sort: "state", cell: (point) => badge(point.state) },
      { head: "Cell", sort: "cell", cell: (point) => (point.cell ? `${point.cell} of ${point.cells ?? "?"}` : "") },
      ...names.map((name) => ({ head: name, sort: `${METRIC}${name}`, number: true, cell: (point) => metric(point.metrics[name]) })),
      { head: "Time", sort: "seconds", number: true, cell: (point) => seconds(point, now()) },
      { head: "Job", cell: (point) => point.job },
      { head: "Message", wide: true, cell: (point) => el("span.point-message", {}, point.message) },
    ],
  });
}

// The order as the API has it.
function order() {
  const down = sort.startsWith("-") ? "-" : "";
  const name = sort.replace(/^-/, "");
  if (!name.startsWith(METRIC)) return { sort: /** @type {any} */ (sort) };
  return { sort: /** @type {any} */ (`${down}metric`), metric: name.slice(METRIC.length) };
}

async function load() {
  const run = await call(`runs/${encodeURIComponent(id)}`);
  show(run);
  const names = run.metrics.slice(0, MOST_METRICS);
  if (metrics !== names.join("\n")) makeTable(names);
  const offset = Number(pager.after ?? 0);
  const page = await call(`runs/${encodeURIComponent(id)}/points`, {
    query: { state: /** @type {any} */ (values.state || undefined), ...order(), offset, limit: LIMIT },
  });
  const end = offset + page.items.length;
  pager.show({ ...page, next: page.items.length && end < page.total ? String(end) : null });
  byId("list").removeAttribute("aria-busy");
  setText(byId("list-count"), count(page.total, "point"));
  table.show(page.items, "No point has this state.");
  showTrouble(null);
  return run.ended_at === null ? EVERY : null;
}

function show(run) {
  const focused = main.contains(document.activeElement) ? document.activeElement.textContent : null;
  document.title = document.title.replace(/^[^–]*/, `${run.name} `);
  main.removeAttribute("aria-busy");
  fill(
    main,
    el(
      "div.board-head",
      {},
      el("h1", {}, run.name),
      run.ended_at === null
        ? el("button.btn.btn-outline-danger.portal-danger", { type: "button", onclick: () => stop(run) }, "Stop run")
        : null,
    ),
    el("p.portal-facts", {}, badge(run.state), el("span", {}, pointWords(run))),
    run.message ? el("div.alert.alert-secondary.ending", {}, run.message) : null,
    points(run),
    factList([
      ["Source", run.source],
      ["Folder", run.folder],
      ["Environment", run.environment],
      run.job_id ? ["Slurm job", run.job_id] : null,
      run.resumes ? ["Time limit", `a point goes on after it, ${run.resumes} times at most`] : null,
      ["Started", exactly(run.created_at)],
      run.ended_at === null ? null : ["Ended", exactly(run.ended_at)],
    ]),
  );
  if (focused) [...main.querySelectorAll("button")].find((item) => item.textContent === focused)?.focus();
}

async function stop(run) {
  const sure = await ask({
    title: `Stop “${run.name}”?`,
    text: "Points that wait or run are cancelled. What has been written so far is kept.",
    action: "Stop run",
    danger: true,
  });
  if (sure === null) return;
  await tell(async () => (await call(`runs/${encodeURIComponent(id)}`, { method: "DELETE" })).message);
  poller.in(1000);
}

poller.now();
