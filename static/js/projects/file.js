// What a project's file says, on the project's page: its starters, and its runs, which can be repeated.

import { call, facts, newId } from "../api.js";
import { toast } from "../dialog.js";
import { button, byId, differs, el, fill, hidden, setText, showTrouble } from "../dom.js";
import { openForm } from "../forms.js";
import { Poller } from "../poller.js";
import { Row, select } from "../run/row.js";
import { pill } from "../status.js";
import { Table } from "../table.js";
import { clock, count } from "../words.js";
import { launchOf, pathOf } from "./words.js";

const EVERY = 15_000;
const { name } = byId("project").dataset;
const path = /** @type {`projects/${string}/file`} */ (`${pathOf(name)}/file`);
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });
/** @type {any} */
let file = null; // as the API has it

const starters = new Table(byId("starters"), {
  label: "file-title",
  key: ({ title }) => title,
  columns: [
    { head: "Starter", wide: true, cell: ({ title, path: of }) => [el("span.first", title), el("span.second", of)] },
    { head: "Environment", cell: ({ environment }) => environment ?? "any" },
    { head: "", cell: (starter) => opens(starter) },
  ],
});
const runs = new Table(byId("file-runs"), {
  label: "file-title",
  key: (run) => run.name,
  columns: [
    { head: "Run of the file", wide: true, cell: (run) => [el("span.first", run.name), el("span.second", `${run.source}, ${count(run.points, "point")} in ${run.environment}`)] },
    { head: "Results", cell: ({ metrics }) => Object.entries(metrics).map(([of, value]) => el("div", `${of} ${value}`)) },
    { head: "Differs here", cell: (run) => listed(run.differences, run.unknown.length ? `The file does not say: ${run.unknown.join(", ")}.` : "Nothing that is known now.") },
    { head: "", cell: (run) => (file?.may_repeat ? button("Repeat…", () => repeat(run), "outline-contrast", { "aria-label": `Repeat ${run.name}…` }) : null) },
  ],
});
const repetitions = new Table(byId("repetitions"), {
  label: "file-title",
  key: ({ user, run }) => `${user}/${run}`,
  columns: [
    { head: "Repetition", wide: true, cell: (each) => [each.user === facts.user ? el("a.first", { href: `${facts.prefix}runs/${encodeURIComponent(each.run)}` }, each.name) : el("span.first", each.name), el("span.second", `of ${each.of}, by ${each.user}`)] },
    { head: "Result", cell: ({ state }) => pill({ identical: "succeeded", different: "uncertain", running: "running" }[state], state) },
    { head: "What differs", cell: ({ state, differences }) => listed(differences, state === "running" ? "Not known before it ends." : "Nothing: all conditions in the file are equal.") },
    { head: "Started", cell: ({ at }) => clock(at) },
  ],
});

async function load() {
  file = await call(path);
  showTrouble(null);
  if (!differs(byId("file"), file)) return;
  byId("file").hidden = !(file.origin || file.starters.length || file.runs.length);
  setText(byId("file-count"), file.runs.length ? count(file.runs.length, "run") : "");
  const waits = file.files === "waiting" ? "The files are not in the folder yet: the next session of an owner puts them there." : file.brought;
  fill(byId("file-facts"), [file.origin ? `From ${file.origin}.` : "", waits, file.left_out].filter(Boolean).map((text) => el("p.portal-quiet", text)));
  byId("starters").hidden = !file.starters.length;
  starters.show(file.starters, "");
  byId("file-runs").hidden = !file.runs.length;
  runs.show(file.runs, "");
  const repeated = file.runs.flatMap((run) => run.repetitions.map((each) => ({ ...each, of: run.name })));
  byId("repetitions").hidden = !repeated.length;
  repetitions.show(repeated, "");
}

// Differences as a list, or the sentence without any.
function listed(differences, otherwise) {
  if (!differences.length) return el("span.portal-quiet", otherwise);
  return el("ul.project-differences", differences.map(({ what, was, here }) => el("li", `${what}: ${here || "as committed"} instead of ${was || "as committed"}`)));
}

// A link that opens a starter's file: in a running session of the project, else the launch page.
function opens({ title, path: of, environment, resources }) {
  const more = hidden(` ${title}`);
  const [session] = file?.sessions ?? [];
  if (session) {
    const steps = of.split("/").map(encodeURIComponent).join("/");
    return el("a.btn.btn-sm.btn-outline-contrast", { href: `${session.url}lab/tree/${steps}` }, "Open", more);
  }
  const asked = new URLSearchParams();
  for (const [key, value] of Object.entries({ environment, ...resources })) if (value) asked.set(`opt-${key}`, String(value));
  return el("a.btn.btn-sm.btn-outline-contrast", { href: `${launchOf(name)}&${asked}` }, "Launch", more);
}

function repeat(run) {
  const { sessions } = file;
  if (!sessions.length) {
    const launch = el("p", el("a", { href: launchOf(name) }, "Launch a session for this project"), ", then repeat the run.");
    openForm({ id: "repeat", title: `Repeat ${run.name}`, text: "A running session of yours in this project reads the script from its folder and starts the run.", content: [launch], action: "Close", keep: "Back" });
    return;
  }
  const session = new Row("Session that starts it", select(sessions.map(({ id, title }) => [id, title])));
  const found = el("div", { role: "status" });
  const of = /** @type {`projects/${string}/file/runs/${string}`} */ (`${path}/runs/${encodeURIComponent(run.name)}`);
  const id = newId();
  const preview = async () => {
    fill(found, el("p.portal-quiet", "Looking for differences…"));
    try {
      const { differences } = await call(of, { query: { session: session.value } });
      fill(found, el("h3", "What will differ"), listed(differences, "Nothing that is known before it runs."));
    } catch (error) {
      fill(found, el("p.text-danger", error.message));
    }
  };
  const send = async () => {
    const started = await call(of, { method: "POST", body: { session: session.value, id } });
    dialog.close();
    toast(`The run ${started.name} was started.`);
    poller.now();
  };
  session.control.addEventListener("change", preview);
  const text = `${run.source} runs with the ${count(run.points, "point")} in the file. Afterwards, this page says what differed.`;
  const dialog = openForm({ id: "repeat", title: `Repeat ${run.name}`, text, content: [session.node, found], action: "Repeat run", first: session.control, send });
  dialog.classList.add("project-fields");
  preview();
}

poller.now();
