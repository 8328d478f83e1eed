// The user's runs, newest first, updated while any of them has not ended.

import { call, facts } from "../api.js";
import { byId, el, setText, showTrouble } from "../dom.js";
import { sortInAddress } from "../filters.js";
import { Pager } from "../pager.js";
import { Poller } from "../poller.js";
import { spaceOf } from "../space.js";
import { Selection } from "./selection.js";
import "./schedules.js";
import { showShared } from "./shared.js";
import { points, time } from "./view.js";
import { pill } from "../status.js";
import { Table } from "../table.js";
import { count } from "../words.js";

const LIMIT = 25;
const EVERY = 10000;
const pager = new Pager(byId("list-pager"), LIMIT, () => poller.now());
const selection = new Selection();
const table = new Table(byId("list"), {
  label: "list-title",
  key: (run) => run.id,
  ...sortInAddress("-created_at", () => {
    pager.first();
    poller.now();
  }),
  columns: [
    { head: "Compare", paint: (cell, run) => selection.paint(cell, run) },
    { head: "Name", sort: "name", cell: (run) => el("a", { href: `${facts.prefix}runs/${run.id}` }, run.name) },
    { head: "State", cell: (run) => pill(run.state) },
    { head: "Points", cell: points, wide: true },
    { head: "Source", cell: (run) => el("span.path", {}, run.source) },
    { head: "Environment", sort: "environment", cell: environment },
    { head: "Started", sort: "created_at", cell: (run) => time(run.created_at) },
    { head: "Ended", sort: "ended_at", cell: (run) => time(run.ended_at) },
  ],
});
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });

// The environment of a run, and the space whose rules it follows.
function environment(run) {
  const space = spaceOf(run);
  return space ? el("span", {}, run.environment, el("br"), el("span.portal-quiet", {}, space.join(" "))) : run.environment;
}

async function load() {
  const page = await call("runs", { query: { sort: table.sort, limit: LIMIT, after: pager.after } });
  showTrouble(null);
  pager.show(page);
  byId("list").removeAttribute("aria-busy");
  setText(byId("list-count"), page.total ? count(page.total, "run") : "");
  table.show(page.items, "You have no runs yet. Start one with New run, or with portal-run in a terminal of a session.");
}

poller.now();
showShared();
