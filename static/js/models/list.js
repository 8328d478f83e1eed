// The list of models that answer.

import { call } from "../api.js";
import { byId, el, setText, showTrouble } from "../dom.js";
import { followForm } from "../filters.js";
import { Poller } from "../poller.js";
import { Table } from "../table.js";
import { clock, count, exactly } from "../words.js";
import { serve } from "./serve.js";
import { pageOf, statePill } from "./words.js";

const EVERY = 5000;
const values = byId("filters") ? followForm(byId("filters"), () => poller.now()) : {};
const table = new Table(byId("list"), {
  label: "list-title",
  key: ({ name }) => name,
  columns: [
    { head: "Model", wide: true, cell: (model) => [el("a.first", { href: pageOf(model.name) }, model.name), model.project ? el("span.second", `for the project ${model.project}`) : null, model.problem ? el("span.second", model.problem) : null] },
    { head: "State", cell: ({ state }) => statePill(state) },
    { head: "Replicas ready", number: true, cell: ({ ready }) => String(ready) },
    { head: "Owner", cell: ({ owner, mine }) => (mine ? "you" : owner) },
    { head: "Last request", cell: ({ active_at: at }) => (at ? el("span.nowrap", { title: exactly(at) }, clock(at)) : "–") },
  ],
});
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });

async function load() {
  const { items } = await call("models", { query: { all: values.all } });
  byId("list").removeAttribute("aria-busy");
  setText(byId("list-count"), items.length ? count(items.length, "model") : "");
  table.show(items, "No model answers yet. Serve one: from a run’s best point, a folder or the catalog.");
  showTrouble(null);
}

byId("serve")?.addEventListener("click", () => serve());
// The page of a run leads here with a point.
const from = new URLSearchParams(window.location.search);
if (from.get("run")) serve({ run: from.get("run"), point: Number(from.get("point")) || 0 });
poller.now();
