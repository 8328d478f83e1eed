// The user's runs, newest first, updated while the page is open: the runs first, then their best points.

import { call } from "../api.js";
import { byId, setText, showTrouble } from "../dom.js";
import { followForm, sortInAddress } from "../filters.js";
import { Pager } from "../pager.js";
import { Poller } from "../poller.js";
import { bestCell, environmentCell, lasted, nameCell } from "./listed.js";
import { Selection } from "./selection.js";
import "./schedules.js";
import { showShared } from "./shared.js";
import { points, time } from "./view.js";
import { pill } from "../status.js";
import { Table } from "../table.js";
import { count } from "../words.js";

const EVERY = 10000;
const bests = new Map(); // by the run's id: the end for which it is known, and the best point
const pager = new Pager(byId("list-pager"), 25, () => poller.now());
const again = () => {
  pager.first();
  poller.now();
};
const selection = new Selection(() => poller.now());
const table = new Table(byId("list"), {
  label: "list-title",
  key: (run) => run.id,
  ...sortInAddress("-created_at", again),
  columns: [
    { head: "Select", paint: (cell, run) => selection.paint(cell, run) },
    { head: "Name", sort: "name", name: "name", paint: nameCell, wide: true },
    { head: "State", name: "points", cell: (run) => [pill(run.state), points(run)], wide: true },
    { head: "Best", paint: (cell, run) => bestCell(cell, bests.get(run.id)?.best) },
    { head: "Environment", sort: "environment", cell: environmentCell },
    { head: "Started", sort: "created_at", cell: (run) => time(run.created_at) },
    { head: "Ended", sort: "ended_at", cell: (run) => time(run.ended_at) },
    { head: "Duration", sort: "seconds", cell: lasted },
  ],
});
const values = followForm(byId("filters"), again);
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });

async function load() {
  const page = await pager.read((place) => call("runs", { query: { ...values, sort: table.sort, ...place } }));
  showTrouble(null);
  byId("list").removeAttribute("aria-busy");
  setText(byId("list-count"), page.total ? count(page.total, "run") : "");
  const filtered = Object.values(values).some(Boolean);
  table.show(page.items, filtered ? "No runs match these filters." : "You have no runs yet. Start one with New run, or with portal-run in a terminal of a session.");
  selection.offer(page.items);
  await findBests(page.items);
}

// Asks for the best points that can have changed.
async function findBests(runs) {
  const asked = runs.filter((run) => run.ended_at === null || bests.get(run.id)?.ended !== run.ended_at);
  if (!asked.length) return;
  const { items } = await call("run-bests", { query: { ids: asked.map((run) => run.id).join() } });
  const found = new Map(items.map((best) => [best.run, best]));
  for (const run of asked) {
    bests.set(run.id, { ended: run.ended_at, best: found.get(run.id) ?? null });
    table.update(run);
  }
}

poller.now();
showShared();
