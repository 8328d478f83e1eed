// The audit log, page by page.

import { apiUrl, call } from "./api.js";
import { byId, el, setText } from "./dom.js";
import { followForm, sortInAddress } from "./filters.js";
import { Pager } from "./pager.js";
import { pill } from "./status.js";
import { Table } from "./table.js";
import { count, exactly } from "./words.js";

// Actions of this version; entries of former ones show their names.
const words = new Map([...byId("audit-action").options].map(({ value, text }) => [value, text]));
const pager = new Pager(byId("list-pager"), 50, load);
const table = new Table(byId("list"), {
  label: "list-title",
  ...sortInAddress("-at", () => load(true)),
  columns: [
    { head: "Time", sort: "at", cell: (line) => el("span.nowrap", exactly(line.at)) },
    { head: "Actor", sort: "actor", cell: (line) => line.actor },
    { head: "Action", sort: "action", cell: (line) => words.get(line.action) || line.action },
    { head: "Target", sort: "target", cell: (line) => line.target },
    { head: "Owner", sort: "owner", cell: (line) => line.owner || "–" },
    { head: "Outcome", sort: "outcome", cell: (line) => pill(line.outcome) },
    { head: "Details", wide: true, cell: (line) => line.detail || "–" },
    { head: "Address", cell: (line) => line.address || "–" },
  ],
});
const values = followForm(byId("filters"), () => load(true));

// Midnight of a local calendar day, plus `days`, in Unix seconds.
function day(text, days = 0) {
  if (!text) return "";
  const [year, month, date] = text.split("-").map(Number);
  return new Date(year, month - 1, date + days).getTime() / 1000;
}

async function load(first = false) {
  if (first) pager.first();
  const { from, to, ...rest } = values;
  const query = { ...rest, since: day(from), until: day(to, 1), sort: table.sort };
  byId("list-csv").href = apiUrl("audit.csv", query);
  try {
    const page = await pager.read((place) => call("audit", { query: { ...query, ...place } }));
    setText(byId("list-count"), count(page.total, "entry", "entries"));
    table.show(page.items, "No entries match these filters.");
  } catch (error) {
    setText(byId("list-count"), error.message);
  }
}

load();
