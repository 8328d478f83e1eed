// The table of jobs. The server filters, sorts and pages; shown rows follow the changes, and the page
// is loaded again when jobs are added or removed.

import { apiUrl, call, may, now } from "./api.js";
import { confirmed, readBy } from "./dialog.js";
import { DANGER, announce, button, byId, differs, el, hidden, presses, setText } from "./dom.js";
import { keepInAddress } from "./filters.js";
import { openJob, runs } from "./job.js";
import { newerJob, states } from "./model.js";
import { Pager } from "./pager.js";
import { pill } from "./status.js";
import { Table } from "./table.js";
import { capital, clock, count, duration, exactly, memory, ranges } from "./words.js";

const isPending = (job) => states.pending.includes(job.state.toLowerCase());

// Columns: the API's sort key, the heading, and how a cell is painted.
/** @type {{name: string, head: string, paint: (...given: any[]) => void, sort?: string, number?: boolean, ages?: boolean}[]} */
const COLUMNS = [
  { name: "state", sort: "state", head: "State", paint: paintState },
  { name: "id", sort: "id", head: "Job", paint: paintJob },
  { name: "user", sort: "user", head: "User", paint: paintUser },
  { name: "environment", sort: "environment", head: "Environment", paint: paintEnvironment },
  { name: "where", sort: "nodes", head: "Node and GPUs", paint: paintWhere },
  { name: "gpus", sort: "gpus", head: "GPUs", number: true, paint: paintGpus },
  { name: "cpus", sort: "cpus", head: "CPUs", number: true, paint: (cell, job) => lines(cell, String(job.cpus)) },
  { name: "memory", sort: "memory", head: "Memory", number: true, paint: (cell, job) => lines(cell, memory(job.memory)) },
  { name: "used", sort: "start_time", head: "Used", number: true, ages: true, paint: paintUsed },
  { name: "left", sort: "end_time", head: "Left", number: true, ages: true, paint: paintLeft },
  { name: "actions", head: "", paint: paintActions },
];

export class Jobs {
  #mark; // presses the button of these states

  // `onPlace(key)` shows a GPU ("NODE/INDEX") or node of a job.
  constructor(place, model, filters, { onPlace }) {
    this.model = model;
    this.onPlace = onPlace;
    this.filters = filters;
    this.items = new Map();
    this.control = null;
    const query = new URLSearchParams(window.location.search);
    const sort = query.get("sort") ?? "";
    this.which = query.get("jobs") in states ? query.get("jobs") : "";
    this.table = new Table(place, {
      columns: COLUMNS.map((column) => ({ ...column, paint: (cell, job) => column.paint(cell, job, this) })),
      label: "jobs-title",
      sort: COLUMNS.some((column) => column.sort === sort.replace(/^-/, "")) ? sort : "-id",
      key: (job) => job.id,
      look: "list-jobs",
      empty: "jobs-empty",
      onSort: (order) => {
        keepInAddress({ sort: order === "-id" ? "" : order });
        this.load(true);
      },
    });
    this.#mark = presses(byId("jobs-which"), "state", (which) => this.choose(which));
    this.#mark(this.which);
    this.pager = new Pager(byId("jobs-pager"), 50, () =>
      this.load().then(() => byId("jobs-title").scrollIntoView({ block: "nearest" })),
    );
    setInterval(() => this.tick(), 1000);
  }

  get query() {
    return { ...this.filters.query, state: (states[this.which] ?? []).join(","), sort: this.table.sort };
  }

  // Loads the page again; with `first`, the first page.
  async load(first = false) {
    if (first) this.pager.first();
    clearTimeout(this.again);
    this.again = null;
    this.asking?.abort();
    const asking = new AbortController();
    this.asking = asking;
    this.loadedAt = performance.now(); // monotonic: a clock that is set back would delay the next load
    byId("jobs-csv").href = apiUrl("jobs.csv", this.query);
    try {
      const page = await this.pager.read((place) => call("jobs", { query: { ...this.query, ...place }, signal: asking.signal }));
      if (asking !== this.asking) return;
      this.#show(page);
      if (first) announce(count(page.total, "job"));
    } catch (error) {
      if (error.name === "AbortError") return;
      setText(byId("jobs-count"), error.message);
      this.#soon(5000);
    }
  }

  // Applies changes of the live stream.
  update(changes) {
    let gone = false;
    let others = false;
    for (const [id, item] of Object.entries(changes.jobs ?? {})) {
      const before = this.items.get(id);
      if (before) {
        const job = newerJob(before, item);
        gone ||= before.state !== job.state;
        this.items.set(id, job);
        this.table.update(job);
      } else {
        others = true;
      }
    }
    for (const id of changes.gone_jobs ?? []) {
      if (this.items.has(id)) gone = true;
      else others = true;
    }
    if (gone) this.#soon(2000 + 1000 * Math.random());
    else if (others) this.#soon(Math.max(2000, 10000 - (performance.now() - this.loadedAt)) + 2000 * Math.random());
  }

  // Shows the jobs of these states, "" for all.
  choose(which) {
    this.which = which;
    this.#mark(which);
    keepInAddress({ jobs: which });
    this.load(true);
  }

  // Shows a job's details.
  open(id) {
    openJob(this.items.get(id), this);
  }

  tick() {
    for (const job of this.items.values()) this.table.update(job, true);
  }

  #soon(wait) {
    const at = performance.now() + wait;
    if (this.again && this.againAt <= at) return;
    clearTimeout(this.again);
    this.againAt = at;
    this.again = setTimeout(() => this.load(), wait);
  }

  #show(page) {
    this.items = new Map(page.items.map((job) => [job.id, job]));
    this.table.show(page.items, this.filters.any || this.which ? "No jobs match these filters." : "No jobs are running or waiting.");
    setText(byId("jobs-count"), count(page.total, "job"));
  }

  // Enables actions according to the portal's rights in Slurm.
  allow(control) {
    this.control = control;
    const words = byId("jobs-rights");
    words.hidden = !(may("jobs:manage") && control && !control.jobs);
    setText(words, control?.missing?.jobs ?? "");
    for (const job of this.items.values()) this.table.update(job);
  }
}

// Writes up to two lines in a cell, only where they differ.
function lines(cell, first, second = "") {
  if (cell.childElementCount !== 2) cell.replaceChildren(el("span.first"), el("span.second"));
  setText(cell.firstChild, first);
  setText(cell.lastChild, second);
  cell.classList.toggle("nothing", first === "–" && !second);
}

function paintState(cell, job) {
  const waits = isPending(job);
  const state = job.held ? "held" : waits ? "waiting" : { RUNNING: "running", COMPLETING: "stopping" }[job.state] ?? "unknown";
  const more = [];
  if (waits && job.position) more.push(`position ${job.position} in the queue`);
  if (waits && job.expected_start) more.push(`expected ${clock(job.expected_start)}`);
  const words = capital(job.words.replace(/^it is /i, ""));
  if (differs(cell, [state, words])) cell.replaceChildren(pill(state, words), el("span.second"));
  setText(cell.lastChild, more.join(", "));
}

function paintJob(cell, job, jobs) {
  if (!differs(cell, [job.id, job.name, job.session_id, job.work, job.work_name])) return;
  const id = el("button.as-link", { type: "button", onclick: () => jobs.open(job.id) }, job.id, hidden(" details"));
  cell.replaceChildren(
    el("span.first", id, job.portal ? [" ", runs(job, job.work ?? "session", ".badge")] : null),
    el("span.second", { title: job.name }, job.work_name ?? job.name ?? ""),
  );
}

function paintUser(cell, job) {
  lines(cell, job.mine ? `${job.user} (you)` : (job.user ?? "another user"), job.account ?? "");
}

function paintEnvironment(cell, job) {
  lines(cell, job.environment ?? "–");
}

function paintWhere(cell, job, { onPlace }) {
  const [first, ...rest] = job.nodes;
  const indexes = (node) => job.gpu_indexes[node] ?? [];
  const gpus = (node) => (indexes(node).length ? `GPU ${ranges(indexes(node))}` : "");
  const words = rest.length ? `${first} and ${rest.length} more` : [first, gpus(first)].filter(Boolean).join(": ");
  cell.title = rest.length ? job.nodes.map((node) => [node, gpus(node)].filter(Boolean).join(": ")).join("\n") : "";
  if (!differs(cell, [words, job.partition])) return;
  const [index] = indexes(first);
  const place = index === undefined ? first : `${first}/${index}`;
  const show = first ? el("button.as-link", { type: "button", onclick: () => onPlace(place) }, words, hidden(" on the grid")) : "–";
  cell.replaceChildren(el("span.first", show), el("span.second", job.partition));
}

function paintGpus(cell, job, { model }) {
  // Slurm may omit a job's GPU type; the GPUs that the job holds have one.
  const [node] = job.nodes;
  const held = model.gpus.get(`${node}/${job.gpu_indexes[node]?.[0]}`);
  lines(cell, job.gpus ? String(job.gpus) : "–", job.gpu_type || held?.type || "");
}

function paintUsed(cell, job) {
  if (job.start_time !== null) {
    lines(cell, duration(now() - job.start_time), `since ${clock(job.start_time)}`);
  } else {
    lines(cell, "–", job.submit_time === null ? "" : `waiting ${duration(now() - job.submit_time)}`);
  }
  cell.title = job.submit_time === null ? "" : `Submitted ${exactly(job.submit_time)}`;
}

function paintLeft(cell, job) {
  const limit = job.time_limit === null ? "" : `of ${duration(job.time_limit)}`;
  if (job.end_time === null) {
    lines(cell, job.time_limit === null ? "no limit" : "–", limit);
    return;
  }
  const left = job.end_time - now();
  lines(cell, left > 0 ? duration(left) : "time is up", limit);
  cell.title = `Ends ${exactly(job.end_time)}`;
}

function paintActions(cell, job, { control }) {
  const manages = may("jobs:manage");
  /** @type {["cancel" | "hold" | "release", string, boolean][]} */
  const buttons = []; // and whether Slurm must let the portal's account do it
  // The Hub stops a session as its owner would; so does the portal with a user's own job.
  if (job.mine || (manages && (job.portal || control))) buttons.push(["cancel", job.portal ? "Stop" : "Cancel", !job.mine && !job.portal]);
  if (manages && control && isPending(job)) buttons.push(job.held ? ["release", "Release", true] : ["hold", "Hold", true]);
  const missing = control?.jobs ? null : (control?.missing?.jobs ?? null);
  if (!differs(cell, [job.id, buttons, missing])) return;
  cell.replaceChildren(
    ...buttons.map(([what, label, slurm]) =>
      button(
        [label, hidden(` job ${job.id}`)],
        () => act(what, job),
        what === "cancel" ? DANGER : undefined,
        slurm && missing ? { disabled: true, title: missing, "aria-describedby": "jobs-rights" } : {},
      ),
    ),
  );
}

const QUESTIONS = {
  cancel: (job) =>
    job.portal
      ? { title: `Stop the session of job ${job.id}?`, action: "Stop", danger: true, keep: "Keep running" }
      : { title: `Cancel job ${job.id}?`, action: "Cancel job", danger: true, keep: "Keep job" },
  hold: (job) => ({ title: `Hold job ${job.id}?`, action: "Hold" }),
  release: (job) => ({ title: `Release job ${job.id}?`, action: "Release" }),
};
const CONSEQUENCES = {
  cancel: "Unsaved data is lost.",
  hold: "The job does not start until it is released.",
  release: "The job can start as soon as resources are free.",
};

/** @param {"cancel" | "hold" | "release"} what @param {any} job */
async function act(what, job) {
  const whose = job.user && !job.mine ? `Owner: ${job.user}${job.name ? `, job name: ${job.name}` : ""}. ` : "";
  const question = { ...QUESTIONS[what](job), text: whose + CONSEQUENCES[what], field: reasonField(what, job) };
  await confirmed(question, (reason) => call(`jobs/${encodeURIComponent(job.id)}/${what}`, { method: "POST", body: { reason } }));
}

// The owner of a session reads why another user stops it; of other jobs, the audit log has the reason. A point of a
// run is a job of many: the run goes on.
function reasonField(what, job) {
  if (job.mine) return null;
  const stops = what === "cancel" && job.portal && !job.id.includes("_");
  return stops ? readBy(job.user) : { label: "Reason for the audit log (optional)" };
}
