// The cluster page: summary, grid, jobs and history, updated live.

import { call, now } from "./api.js";
import { byId, el, setText } from "./dom.js";
import { Filters } from "./filters.js";
import { Grid } from "./grid.js";
import { Heat } from "./heat.js";
import { History } from "./history.js";
import { Jobs } from "./jobs.js";
import { Live } from "./live.js";
import { Model, fetchBoard } from "./model.js";
import { Panel } from "./panel.js";
import { Poller } from "./poller.js";
import { drawSummary } from "./summary.js";
import { clock, count, duration } from "./words.js";

const page = JSON.parse(byId("cluster-facts").textContent);
const model = new Model();
const panel = new Panel(byId("panel"), model, {
  onClose: (key) => {
    grid.mark(null);
    grid.focus(key);
  },
  onJob: (id) => {
    lead({ jobs: "all", text: id });
  },
});
const grid = new Grid(byId("grid"), model, {
  onPoint: (key) => panel.point(key),
  onChoose: (key) => {
    grid.mark(key);
    panel.pin(key);
  },
});
const filters = new Filters(() => {
  filter();
  jobs.load(true);
});
const jobs = new Jobs(byId("jobs"), model, filters, { onPlace: (key) => grid.choose(key) });
const heat = new Heat({ shows: (name) => grid.shows(name), onChoose: (name) => grid.choose(name) });

let connection = "starting";
let refusal = ""; // why the service does not send a stream
let store = null; // the state of the database

function filter() {
  grid.filter(filters.match);
  heat.filter();
  counts();
}

// Shows the rows that a series of a plot counts: jobs, or GPUs.
function lead({ jobs: which, ...values }) {
  filters.only(values);
  if (which) jobs.choose(which === "all" ? "" : which);
  const title = byId(which ? "jobs-title" : "nodes-title");
  title.scrollIntoView({ block: "start" });
  title.focus({ preventScroll: true });
}

function counts() {
  const { shown } = grid;
  const all = model.nodes.size;
  setText(byId("nodes-count"), shown === all ? count(all, "node") : `${shown.toLocaleString("en")} of ${count(all, "node")}`);
  const empty = byId("grid-empty");
  empty.hidden = shown > 0 || connection === "starting";
  setText(empty, all ? "No nodes match these filters." : "Slurm reports no nodes.");
  summary();
}

function summary() {
  if (model.summary) drawSummary(model.summary, filters.values.state, (state) => filters.set({ state }));
}

// Shows the age of the data, and current problems.
function age() {
  const late = model.takenAt === null ? null : Math.max(0, now() - model.takenAt);
  const old = late !== null && late > 3 * page.interval + 5;
  const stale = Boolean(model.error) || old;
  const as = late === null ? "" : `as of ${late < 90 ? `${Math.floor(late)} s ago` : clock(model.takenAt)}`;
  const words = { live: "Live", polling: "Updating every few seconds", lost: "Reconnecting…", starting: "Loading…" };
  const kind = connection === "live" && stale ? "stale" : connection;
  byId("fresh").className = `fresh fresh-${kind}`;
  setText(byId("fresh-text"), [kind === "stale" ? "Not up to date" : words[connection], as].filter(Boolean).join(" · "));
  const troubles = [];
  if (stale && late !== null) {
    const since = `The data shown is from ${clock(model.takenAt)}, ${duration(late)} ago.`;
    troubles.push(["stale", [model.error || "No current data from the cluster.", since].join(" ")]);
  }
  if (model.telemetryError) {
    const since = model.telemetryAt ? ` GPU readings were last updated at ${clock(model.telemetryAt)}.` : "";
    troubles.push(["telemetry", model.telemetryError + since]);
  }
  if (store?.error) troubles.push(["store", `${store.error}${store.error_since ? ` (since ${clock(store.error_since)})` : ""} History, sessions and usage are unavailable.`]);
  if (connection === "polling") {
    const why = refusal || "The live connection does not work.";
    troubles.push(["polling", `${why} This page updates every few seconds instead.`]);
  }
  if (connection === "lost") troubles.push(["lost", "The connection to the portal is lost. Reconnecting…"]);
  showTroubles(troubles);
}

function showTroubles(troubles) {
  const place = byId("troubles");
  const there = new Map([...place.children].map((child) => [child.dataset.about, child]));
  for (const [about, text] of troubles) {
    const note = there.get(about) ?? el("div.alert.alert-warning.trouble", { dataset: { about } });
    setText(note, text);
    if (!there.delete(about)) place.append(note);
  }
  for (const gone of there.values()) gone.remove();
}

async function reset() {
  const board = await fetchBoard();
  performance.mark("portal-board");
  model.fill(board);
  connection = "live";
  grid.build().then(() => requestAnimationFrame(() => performance.mark("portal-grid")));
  filters.offer(model.choices());
  panel.draw();
  for (const badge of document.querySelectorAll("[data-simulated]")) badge.hidden = !model.simulated;
  filter();
  // The viewer's own items come separately from the board, which is the same for everyone.
  const { own } = await call("changes", { query: { stream: board.stream, version: board.version } });
  if (own) changed(own, true);
  jobs.load();
  return board;
}

function changed(changes, own = false) {
  if (!own && changes.stream === model.stream && changes.version <= model.version) return;
  const touched = model.apply(changes, own);
  if (touched.whole) {
    grid.build();
  } else {
    grid.update(touched);
  }
  if (touched.whole || touched.gpus.size) filters.offer(model.choices());
  panel.update(touched);
  jobs.update(changes);
  counts();
  age();
}

async function rights() {
  const answer = await call("cluster");
  store = answer.store;
  panel.control = answer.control;
  panel.draw();
  jobs.allow(answer.control);
}

if (page.view) {
  model.summary = page.view.summary;
  model.takenAt = page.view.taken_at;
  model.error = page.view.error;
  summary();
}
age();
setInterval(age, 1000);
new Live({
  interval: page.interval,
  onReset: reset,
  onChanges: changed,
  onState: (state, message) => {
    connection = state;
    refusal = state === "polling" ? message : "";
    age();
  },
}).start();
new Poller({ every: 60000, ask: rights }).now(); // the live connection reports errors
new History(lead);
