// Runs of a project: those of all its members, newest first, each with its best point; two to four can be compared.

import { call, facts } from "../api.js";
import { byId, el, hidden, setText, showTrouble } from "../dom.js";
import { followForm } from "../filters.js";
import { Pager } from "../pager.js";
import { Poller } from "../poller.js";
import { bestCell, environmentCell } from "../run/listed.js";
import { points, runPage, time } from "../run/view.js";
import { pill } from "../status.js";
import { Table } from "../table.js";
import { count } from "../words.js";
import { pathOf } from "./words.js";

const EVERY = 15000;
const LETTERS = ["a", "b", "c", "d"]; // of the runs that are compared
const { name } = byId("project").dataset;
const user = /** @type {HTMLSelectElement} */ (byId("runs-user"));
const chosen = new Set(); // keys of runs
const keyOf = (run) => `${run.user}/${run.id}`;
/** @type {Poller | null} */
let poller = null; // once the role of this person is known

const table = new Table(byId("runs"), {
  label: "runs-title",
  key: keyOf,
  columns: [
    { head: "Select", paint: paintChoice },
    { head: "Name", wide: true, cell: (run) => el("a.first", { href: runPage(run) }, run.name) },
    { head: "User", cell: (run) => run.user },
    { head: "State", wide: true, cell: (run) => [pill(run.state), points(run)] },
    { head: "Best", paint: (cell, run) => bestCell(cell, run.best) },
    { head: "Environment", cell: environmentCell },
    { head: "Started", cell: (run) => time(run.created_at) },
  ],
});

// Shows the part to those who are in the project; an admin who is not sees no runs.
export function showRuns({ role, state, closed }) {
  byId("runs-part").hidden = !role;
  byId("new-run").hidden = role === "reader" || state !== "approved" || Boolean(closed);
  if (!role || poller) return;
  offerUsers([], new URLSearchParams(window.location.search).get("user") ?? "");
  const again = () => {
    pager.first();
    poller.now();
  };
  const pager = new Pager(byId("runs-pager"), 25, () => poller.now());
  const values = followForm(byId("runs-filters"), again);
  const ask = async () => {
    const page = await pager.read((place) => call(/** @type {`projects/${string}/runs`} */ (`${pathOf(name)}/runs`), { query: { ...values, ...place } }));
    byId("runs").removeAttribute("aria-busy");
    setText(byId("runs-count"), page.total ? count(page.total, "run") : "");
    offerUsers(page.users, values.user);
    const filtered = values.user || values.state;
    table.show(page.items, filtered ? "No runs match these filters." : "Nobody has started a run for this project, or shared one with it.");
  };
  poller = new Poller({ every: EVERY, ask, onTrouble: showTrouble });
  poller.now();
}

// The users whose runs can be chosen; the one that is chosen stays.
function offerUsers(users, now) {
  const known = new Set([...user.options].map(({ value }) => value));
  user.append(...[...new Set([...users, now])].filter((each) => !known.has(each)).map((each) => el("option", { value: each }, each)));
  if (user.value !== now) user.value = now;
}

// Painted once: it keeps the focus.
function paintChoice(cell, run) {
  if (cell.firstChild) return;
  const box = el("input.form-check-input", {
    type: "checkbox",
    checked: chosen.has(keyOf(run)),
    onchange: () => {
      if (box.checked) chosen.add(keyOf(run));
      else chosen.delete(keyOf(run));
      showChosen();
    },
  });
  cell.append(el("label.run-choice", box, hidden(`Select ${run.name} of ${run.user}`)));
}

function showChosen() {
  const keys = [...chosen];
  const comparable = keys.length >= 2 && keys.length <= LETTERS.length;
  const address = (key) => (key.startsWith(`${facts.user}/`) ? key.slice(facts.user.length + 1) : key);
  const query = comparable ? keys.map((key, at) => `${LETTERS[at]}=${encodeURIComponent(address(key))}`).join("&") : "";
  byId("runs-chosen").hidden = !keys.length;
  byId("runs-compare").hidden = !comparable;
  byId("runs-compare").href = `${facts.prefix}runs/compare?${query}`;
  setText(byId("runs-compare"), `Compare ${keys.length} runs`);
  const more = keys.length === 1 ? " Choose another run to compare with." : keys.length > LETTERS.length ? " At most four runs can be compared." : "";
  setText(byId("runs-chosen-words"), `${count(keys.length, "run")} selected.${more}`);
}
