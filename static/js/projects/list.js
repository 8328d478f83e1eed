// The list of projects.

import { call } from "../api.js";
import { byId, el, setText, showTrouble } from "../dom.js";
import { followForm } from "../filters.js";
import { Poller } from "../poller.js";
import { pill } from "../status.js";
import { Table } from "../table.js";
import { count } from "../words.js";
import { openImport, openProject } from "./form.js";
import { budgetWords, pageOf } from "./words.js";

const EVERY = 15000;
const MOST = 500; // of a page of the API
const values = byId("filters") ? followForm(byId("filters"), () => poller.now()) : {};
const table = new Table(byId("list"), {
  label: "list-title",
  key: ({ name }) => name,
  columns: [
    { head: "Project", wide: true, cell: ({ name, title, closed, problem }) => [el("a.first", { href: pageOf(name) }, title), el("span.second", problem || closed || name)] },
    { head: "State", cell: ({ state }) => pill(state) },
    { head: "Your role", cell: ({ role }) => role ?? "–" },
    { head: "Account", cell: ({ account }) => account ?? "each member’s" },
    { head: "Budget", cell: (project) => budgetWords(project) },
    { head: "Last day", cell: ({ ends }) => el("span.nowrap", ends ?? "–") },
  ],
});
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });

async function load() {
  const { items, total } = await call("projects", { query: { limit: MOST, state: values.state || undefined, mine: values.mine || undefined } });
  byId("list").removeAttribute("aria-busy");
  setText(byId("list-count"), total ? count(total, "project") : "");
  table.show(items, "You are in no project yet. Request one: its members share an account, a budget and a folder.");
  showTrouble(null);
}

byId("request-project")?.addEventListener("click", () => openProject());
byId("import-project")?.addEventListener("click", () => openImport());
poller.now();
