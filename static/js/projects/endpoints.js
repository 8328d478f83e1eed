// The models that are served for a project, or shared with it: for those who work in it, and admins.

import { call, facts } from "../api.js";
import { copies } from "../copy.js";
import { button, byId, el, setText, showTrouble } from "../dom.js";
import { statePill } from "../models/words.js";
import { Poller } from "../poller.js";
import { Table } from "../table.js";
import { clock, count, exactly, short } from "../words.js";
import { pathOf } from "./words.js";

const EVERY = 5000;
const section = byId("endpoints-part");
const { name } = byId("project").dataset;
const table = new Table(byId("endpoints"), {
  label: "endpoints-title",
  key: (endpoint) => endpoint.name,
  columns: [
    { head: "Model", wide: true, cell: (endpoint) => [el("a.first", { href: `${facts.prefix}endpoints/${endpoint.name}` }, endpoint.name), ...about(endpoint).map((text) => el("span.second", text)), addressOf(endpoint.address)] },
    { head: "State", cell: ({ state }) => statePill(state) },
    { head: "Replicas ready", number: true, cell: ({ ready }) => String(ready) },
    { head: "Requests, week", number: true, cell: ({ requests }) => (requests === null ? "–" : short(requests)) },
    { head: "GPU-hours, week", number: true, cell: ({ gpu_hours: hours }) => (hours === null ? "–" : short(hours)) },
    { head: "Last request", cell: ({ active_at: at }) => (at ? el("span.nowrap", { title: exactly(at) }, clock(at)) : "–") },
  ],
});
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });

const about = ({ owner, shared, problem }) => [`${owner === facts.user ? "yours" : `by ${owner}`}${shared ? "; shared with the project" : ""}`, problem].filter(Boolean);

function addressOf(address) {
  const url = `${window.location.origin}${address}`;
  const copy = button("Copy", () => {});
  copies(copy, url, "Address copied.");
  return el("div", el("code.project-address", url), " ", copy);
}

async function load() {
  const { items } = await call(/** @type {`projects/${string}/endpoints`} */ (`${pathOf(name)}/endpoints`));
  byId("endpoints").removeAttribute("aria-busy");
  setText(byId("endpoints-count"), items.length ? count(items.length, "model") : "");
  table.show(items, "No model is served for this project, or shared with it. Choose the project in the dialog of the page Models.");
}

// Readers use no models of the project.
export function showEndpoints({ role }) {
  const was = section.hidden;
  section.hidden = role === "reader";
  if (was && !section.hidden) poller.now();
}
