// Results of benchmarks: a table, a plot of one result by environment and hardware, and for curators the runs
// whose results these are.

import { call, facts, loginEnded, may } from "./api.js";
import { ask, perform } from "./dialog.js";
import { byId, el, fill, hidden, setText, showTrouble } from "./dom.js";
import { followForm, sortInAddress } from "./filters.js";
import { Pager } from "./pager.js";
import { facts as listed, level } from "./panel.js";
import { pill } from "./status.js";
import { Table } from "./table.js";
import { capital, clock, count, exactly, share } from "./words.js";

const BARS = 25;
const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
const hardware = (row) => (row.gpu_type ? `${row.gpus} × ${row.gpu_type}` : row.benchmark === "storage" ? "–" : "CPUs");
const environment = (row) => `${row.environment}${row.version ? `, version ${row.version}` : ""}`;
const simulated = () => el("span.badge.portal-simulated", {}, "simulated");

const pager = new Pager(byId("list-pager"), 50, load);
const table = new Table(byId("list"), {
  label: "list-title",
  key: (row) => JSON.stringify([row.benchmark, row.name, row.conditions, row.environment, row.version, hardware(row), row.simulated, row.nodes]),
  ...sortInAddress("-at", () => load(true)),
  columns: [
    { head: "Result", sort: "name", cell: (row) => [el("span.first", {}, capital(row.name)), el("span.second", {}, row.conditions)], wide: true },
    { head: "Value", sort: "value", number: true, cell: value },
    { head: "Of the peak", number: true, cell: (row) => (row.share === null ? "–" : share(row.share)) },
    { head: "Environment", sort: "environment", cell: environment },
    { head: "Hardware", sort: "gpu_type", cell: (row) => [hardware(row), " ", row.simulated ? simulated() : null, el("span.second", {}, row.nodes)] },
    { head: "Measured", sort: "at", cell: (row) => el("span.nowrap", { title: exactly(row.at) }, clock(row.at)) },
    { head: "", cell: plotButton },
  ],
});
const values = followForm(byId("filters"), () => load(true));
let drawn = ""; // what the plot shows

function value(row) {
  const worse = row.fall ? el("span.nowrap", {}, pill("failed", `${share(row.fall)} worse`)) : null;
  return [el("span.nowrap", {}, `${number(row.value)} ${row.unit} `), worse];
}

function plotButton(row) {
  return el(
    "button.btn.btn-sm.btn-outline-contrast",
    { type: "button", onclick: () => draw(row).then(() => byId("plot-part").scrollIntoView({ block: "nearest" })) },
    "Plot",
    hidden(` ${row.name}, ${row.conditions}`),
  );
}

// Shows this result wherever it was measured.
async function draw({ benchmark, name, conditions, unit }) {
  const key = JSON.stringify([benchmark, name, conditions]);
  if (key === drawn) return;
  drawn = key;
  try {
    const { items } = await call("benchmarks", { query: { benchmark, name, conditions, sort: "environment", limit: BARS } });
    if (drawn !== key || !items.length) return;
    byId("plot-part").hidden = false;
    setText(byId("plot-title"), `${capital(name)} in ${unit}`);
    setText(byId("plot-words"), conditions);
    const most = Math.max(...items.map((row) => row.value));
    const bar = (row) => el("span", {}, level((100 * row.value) / most, number(row.value)), row.simulated ? simulated() : null);
    const where = (row) => [environment(row), hardware(row), row.nodes].filter((words) => words && words !== "–").join(", ");
    fill(byId("plot"), listed(items.map((row) => [where(row), bar(row)])));
  } catch (error) {
    if (!loginEnded(error)) showTrouble(error);
  }
}

async function load(first = false) {
  if (first === true) pager.first();
  try {
    const page = await pager.read((place) => call("benchmarks", { query: { ...values, sort: table.sort, ...place } }));
    setText(byId("list-count"), capital(count(page.total, "result")));
    table.show(page.items, "No results. They are those of runs that an admin has added.");
    showTrouble(null);
    if (page.items.length) draw(page.items[0]);
  } catch (error) {
    if (!loginEnded(error)) showTrouble(error);
  }
}

load();

// -- for curators ----------------------------------------------------------------------------------

const path = /** @type {(id: string) => `benchmarks/runs/${string}`} */ (id) => `benchmarks/runs/${encodeURIComponent(id)}`;

function runs() {
  const runs = new Table(byId("runs"), {
    label: "runs-title",
    key: (run) => `${run.user}/${run.run}`,
    columns: [
      { head: "Run", cell: (run) => (run.user === facts.user ? el("a", { href: `${facts.prefix}runs/${encodeURIComponent(run.run)}` }, run.name) : run.name) },
      { head: "User", cell: (run) => run.user },
      { head: "Environment", cell: environment },
      { head: "State", cell: state },
      { head: "New versions", cell: (run) => (run.origin ? "repeats another run" : run.renew ? "renewed" : "–") },
      { head: "", cell: actions, wide: true },
    ],
  });

  function state(run) {
    if (!run.taken_at) return pill("waiting", "waits for its end");
    const words = run.problem || run.falls.join(" ");
    const sign = run.problem ? pill("refused", "not taken") : run.falls.length ? pill("failed", "has become worse") : pill("done", "taken");
    return [sign, words ? el("span.second", {}, words) : null];
  }

  function actions(run) {
    const button = (words, act, look = "btn-outline-contrast") =>
      el(`button.btn.btn-sm.${look}`, { type: "button", onclick: act }, words, hidden(` ${run.name}`));
    const mine = run.user === facts.user && !run.origin;
    return el(
      "div.entry-actions",
      {},
      mine ? button(run.renew ? "Do not renew" : "Renew with each version", () => change(run.run, !run.renew)) : null,
      button("Remove…", () => remove(run), "btn-outline-danger.portal-danger"),
    );
  }

  async function change(id, renew) {
    await perform(call(path(id), { method: "PUT", body: { renew } }));
    show();
  }

  async function remove(run) {
    const sure = await ask({
      title: `Remove ${run.name}?`,
      text: "Its results, and those of its repetitions, are removed from the site’s. The run itself stays.",
      action: "Remove results",
      danger: true,
    });
    if (sure === null) return;
    await perform(call(path(run.run), { method: "DELETE", query: { owner: run.user } }));
    show();
    load(true);
  }

  async function show() {
    try {
      const { items, own } = await call("benchmarks/runs");
      setText(byId("runs-count"), capital(count(items.length, "run")));
      runs.show(items, "No run was added.");
      const choices = own.map((run) => el("option", { value: run.id }, `${run.name} in ${run.environment}${run.ended ? "" : ", not ended"}`));
      byId("add-run").replaceChildren(...choices);
      byId("add").hidden = !own.length;
      byId("add-none").hidden = Boolean(own.length);
    } catch (error) {
      if (!loginEnded(error)) showTrouble(error);
    }
  }

  byId("add").addEventListener("submit", (event) => {
    event.preventDefault();
    change(byId("add-run").value, byId("add-renew").checked);
  });
  show();
}

if (may("environments:manage")) runs();
