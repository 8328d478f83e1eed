// One run and its points. The page is updated until the run has ended.

import { apiUrl, call } from "../api.js";
import { byId, el, fill, setText, showTrouble } from "../dom.js";
import { followForm, sortInAddress } from "../filters.js";
import { Pager } from "../pager.js";
import { facts as factList } from "../panel.js";
import { shortPath } from "../paths.js";
import { Poller } from "../poller.js";
import { spaceOf } from "../space.js";
import { actionBar } from "./actions.js";
import { Shares, driftPart } from "./again.js";
import { afterLink, mailWords } from "./chain.js";
import "./logged.js";
import "./output.js";
import "./point_use.js";
import "./schedule.js";
import "./tensorboard.js";
import { bestIs } from "../models/serve_point.js";
import { Best } from "./best.js";
import { ColumnChoice } from "./column_choice.js";
import { columns, order } from "./columns.js";
import { Curves } from "./curves.js";
import { Parallel } from "./parallel.js";
import { PointPanel } from "./point.js";
import { HeatMap, Scatter } from "./relations.js";
import { searchFacts } from "./search.js";
import { points, pointWords } from "./view.js";
import { RunUse } from "./use.js";
import { Views, seldom } from "./views.js";
import { pill } from "../status.js";
import { Table } from "../table.js";
import { capital, count, exactly } from "../words.js";

const LIMIT = 100;
const EVERY = 5000;
const PLOTS_EVERY = 15000;
const main = byId("run");
const { id } = main.dataset;
const owner = main.dataset.owner || undefined; // another user, who shares the run
const shares = new Shares(byId("shares"));
const pager = new Pager(byId("list-pager"), LIMIT, () => poller.now());
const poller = new Poller({ every: EVERY, ask: () => load().catch(wrong), onTrouble: showTrouble });
const panel = new PointPanel(id, owner);
const open = (number) => panel.open(number, shown).catch(showTrouble);
const best = new Best(() => poller.now(), open);
const drawBest = seldom(PLOTS_EVERY, (run) => best.draw(run));
const views = new Views(
  {
    table: null,
    curves: { make: (place) => new Curves(place, open), every: PLOTS_EVERY },
    scatter: { make: (place) => new Scatter(place, open), every: PLOTS_EVERY },
    heat: { make: (place) => new HeatMap(place, open), every: PLOTS_EVERY },
    parallel: { make: (place) => new Parallel(place, open), every: PLOTS_EVERY },
  },
  () => poller.now(),
);
const use = new RunUse();
const values = followForm(byId("filters"), again);
const columnChoice = new ColumnChoice(byId("columns"), () => {
  names = null;
  poller.now();
});
new ResizeObserver(() => table && columnChoice.pin(table)).observe(byId("list"));
let names = null; // of the table's columns; null: there is no table yet
let table;
let shown = null; // the run as it was read last
// Parts of the head that stay the same elements: a menu or the details may be open.
const head = {
  name: el("h1"),
  actions: el("div.run-actions"),
  state: el("div.run-state"),
  facts: el("div"),
};

function again() {
  pager.first();
  poller.now();
}

function makeTable(run) {
  table = new Table(byId("list"), {
    label: "list-title",
    key: (point) => String(point.number),
    ...sortInAddress("number", again),
    columns: columnChoice.choose(columns(run.parameters, run.metrics, open)),
  });
}

async function load() {
  let run = await call(`runs/${encodeURIComponent(id)}`, { query: { owner, metric: best.metric } });
  if (best.offer(run)) run = await call(`runs/${encodeURIComponent(id)}`, { query: { owner, metric: best.metric } });
  bestIs(best.of(run)?.number ?? null);
  show(run);
  best.show(run);
  drawBest(run, [best.metric, best.of(run)]).catch(() => setText(byId("best-words"), "The curves could not be loaded."));
  shares.show(run);
  use.show(run);
  const query = { owner, state: values.state || undefined, where: values.where, ...order(sortInAddress("number").sort) };
  byId("points-csv").href = apiUrl(`runs/${encodeURIComponent(id)}/points.csv`, query);
  byId("columns").hidden = views.name !== "table";
  if (views.name === "table") await loadTable(run, query);
  else await views.update(run, { metric: best.metric, lowest: best.lowest, best: best.of(run)?.number, query });
  await panel.update(run);
  setText(byId("where-problem"), "");
  showTrouble(null);
  return run.ended_at === null ? EVERY : null;
}

// What is wrong with the filter is said beside it.
function wrong(error) {
  if (error.field !== "where") throw error;
  setText(byId("where-problem"), error.message);
  return EVERY;
}

async function loadTable(run, query) {
  const fresh = JSON.stringify([run.parameters, run.metrics]);
  if (names !== fresh) makeTable(run);
  names = fresh;
  const offset = Number(pager.after ?? 0);
  const page = await call(`runs/${encodeURIComponent(id)}/points`, {
    query: { ...query, offset, limit: LIMIT },
  });
  const end = offset + page.items.length;
  pager.show({ ...page, next: page.items.length && end < page.total ? String(end) : null });
  byId("list").removeAttribute("aria-busy");
  setText(byId("list-count"), count(page.total, "point"));
  const number = best.of(run)?.number;
  table.show(page.items.map((point) => ({ ...point, best: point.number === number })), "No point passes the filter.");
  columnChoice.pin(table);
}

function missingWords(run) {
  const whose = run.mine ? "your" : "its user's";
  const points = run.missing === 1 ? "The last report of 1 point" : `The last reports of ${count(run.missing, "point")}`;
  return `${points} did not reach the portal, so tables, best points and plots may lack metrics. They are in the run's folder, and ${whose} next JupyterLab session sends them, within five minutes of its start.`;
}

// "GPU type", "Memory"
const resourceWords = (name) => capital(name.replace("_", " ")).replace(/^(gpu|cpu|qos)/i, (word) => word.toUpperCase());

function show(run) {
  if (!shown) fill(main, el("div.page-title", head.name, head.actions), head.state, el("details.run-details", { ontoggle: () => poller.now() }, el("summary", "Details"), head.facts, use.place));
  shown = run;
  const focused = main.contains(document.activeElement) ? document.activeElement.textContent : null;
  document.title = document.title.replace(/^[^–]*/, `${run.name} `);
  main.removeAttribute("aria-busy");
  setText(head.name, run.name);
  if (!head.actions.querySelector(".show")) fill(head.actions, actionBar(run, () => poller.in(1000)));
  fill(
    head.state,
    el(
      "p.portal-facts",
      pill(run.state),
      el("span", pointWords(run)),
      run.mine ? null : el("span", `by ${run.user}`),
      run.after && run.mine ? el("span", "after ", afterLink(run)) : null,
    ),
    run.message ? el("div.alert.alert-secondary.ending", run.message) : null,
    run.missing ? el("div.alert.alert-warning", missingWords(run)) : null,
    points(run),
    driftPart(run),
  );
  fill(
    head.facts,
    factList([
      run.notify.length && run.mine ? ["Mail", mailWords(run)] : null,
      ["Source", shortPath(run.source, run.user)],
      ["Folder", shortPath(run.folder, run.user)],
      ["Environment", run.version ? `${run.environment}, version ${run.version}` : run.environment],
      ...Object.keys(run.resources).sort().map((name) => [resourceWords(name), String(run.resources[name])]),
      spaceOf(run),
      run.job_id ? ["Slurm job", run.job_id] : null,
      run.ranks ? ["Ranks on each node", String(run.ranks)] : null,
      run.resumes ? ["Time limit", `points resume after it, at most ${count(run.resumes, "time")}`] : null,
      ["Started", exactly(run.created_at)],
      run.again_at === null ? null : ["Started again", exactly(run.again_at)],
      run.ended_at === null ? null : ["Ended", exactly(run.ended_at)],
      ...searchFacts(run),
    ]),
  );
  if (focused) [...main.querySelectorAll("button")].find((item) => item.textContent === focused)?.focus();
}

poller.now();
