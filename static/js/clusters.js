// The user's clusters of workers on the Sessions page: how many run, why others do not, their dashboard, their end.

import { call } from "./api.js";
import { ask, perform } from "./dialog.js";
import { byId, el, fill, hidden, setText } from "./dom.js";
import { pill } from "./status.js";
import { clock, count } from "./words.js";

const ENGINES = { "dask-worker": "Dask", "ray-worker": "Ray" };
const SCHEDULER = "dask-scheduler"; // of a kept cluster
const UNUSED = ". It has no workers now: those of a kept cluster without a client and tasks are stopped after a while.";
const KEPT = "Kept: it goes on without a session. Connect to it from a notebook with ";
const LABS = [undefined, "", "jupyterlab"]; // kinds of the sessions that show dashboards
let shown = ""; // what the list shows; it stays if nothing has changed, with the focus in it

// Whether a session is a worker of a cluster, or the scheduler of a kept one.
export const isWorker = ({ options }) => Boolean(options.dask || options.ray || options.dask_scheduler);

// Shows the clusters beside the user's live `sessions`, those without a page too. `onDone` is called after one was stopped.
export async function showClusters(sessions, onDone) {
  if (!byId("clusters")) return;
  const { items } = await call("replica-sets");
  const clusters = clustersOf(items);
  const opens = sessions.map((session) => [session.job_id, session.links.open, session.ends_at]);
  const text = JSON.stringify([clusters, opens]);
  byId("clusters").hidden = !clusters.length;
  if (text === shown) return;
  shown = text;
  setText(byId("clusters-count"), clusters.length ? count(clusters.length, "cluster") : "");
  fill(byId("clusters-list"), ...clusters.map((cluster) => entry(cluster, sessions, onDone)));
}

// Hides them: the page shows the sessions of others.
export function hideClusters() {
  if (byId("clusters")) byId("clusters").hidden = true;
}

// Returns the clusters among replica sets: `set` is what Stop ends, of a kept one its scheduler's.
function clustersOf(items) {
  const alive = items.filter((item) => item.replicas || item.running.length);
  const schedulers = alive.filter((item) => item.work === SCHEDULER);
  const none = { replicas: 0, running: [], problem: "" };
  const kept = schedulers.map((scheduler) => {
    const id = scheduler.id.replace(/-0$/, "");
    const workers = alive.find((item) => item.work in ENGINES && item.id === id) || none;
    const problem = scheduler.problem || workers.problem;
    return { ...workers, id, problem, options: scheduler.options, set: scheduler.id, scheduler };
  });
  const ids = new Set(kept.map(({ id }) => id));
  const others = alive.filter((item) => item.work in ENGINES && !ids.has(item.id));
  return [...others.map((item) => ({ ...item, set: item.id })), ...kept];
}

function entry(cluster, sessions, onDone) {
  const { id, work, replicas, running, problem, options, scheduler } = cluster;
  const own = sessions.find((session) =>
    scheduler ? isLab(session) : session.job_id && session.job_id === options.dask?.session, // Ray has no dashboard
  );
  const ready = running.filter((worker) => worker.state === "running" && worker.number < replicas).length;
  const runs = !scheduler || scheduler.running.some((job) => job.state === "running");
  const stops = scheduler ? !scheduler.replicas : !replicas;
  const state = stops ? "stopping" : ready < replicas || !runs ? "waiting" : "running";
  const name = `${ENGINES[work] ?? "Dask"} cluster ${id.slice(0, 6)}`;
  const dashboard = own?.links.open && runs ? `${own.links.open}portal/clusters/${encodeURIComponent(id)}/status` : "";
  return el(
    "li.entry",
    { dataset: { cluster: id } },
    el(
      "div",
      {},
      el("h3", {}, name),
      el("p.portal-facts", {}, pill(state), el("span", {}, `${ready} of ${count(replicas, "worker")}`), el("span", {}, options.environment)),
      problem ? el("p.why", {}, problem) : null,
      scheduler ? el("p.portal-facts", {}, el("span", {}, KEPT, el("code", {}, `dask("${id.slice(0, 6)}")`), replicas ? "." : UNUSED, endOf(scheduler, sessions))) : null,
    ),
    el(
      "div.entry-actions",
      {},
      dashboard
        ? el("a.btn.btn-sm.btn-outline-contrast", { href: dashboard, target: "_blank", rel: "noopener" }, "Open dashboard", hidden(` of ${name}`))
        : null,
      !stops
        ? el("button.btn.btn-sm.btn-outline-danger.portal-danger", { type: "button", onclick: () => stop(cluster, name, onDone) }, "Stop", hidden(` ${name}`))
        : null,
    ),
  );
}

// Whether a kept cluster's dashboard can be opened in a session.
const isLab = ({ links, options, in_space }) => links.open && !in_space && !options.tensorboard && LABS.includes(options.kind);

// Returns what is lost when the job of a scheduler reaches its time limit.
function endOf({ running }, sessions) {
  const ends = sessions.find(({ job_id }) => job_id && job_id === running[0]?.job_id)?.ends_at;
  return ends ? ` Its scheduler's job ends at ${clock(ends)}, and another follows: tasks and results that are on the cluster then are lost.` : "";
}

async function stop({ set, replicas, scheduler }, name, onDone) {
  const parts = [scheduler ? "scheduler" : "", replicas || !scheduler ? count(replicas, "worker") : ""].filter(Boolean).join(" and ");
  const text = `Its ${parts}, and what is in memory there, are gone. ${scheduler ? "Your sessions" : "The notebook and its session"} go on.`;
  if ((await ask({ title: `Stop ${name}?`, text, action: "Stop", danger: true, keep: "Keep running" })) === null) return;
  await perform(call(`replica-sets/${encodeURIComponent(set)}`, { method: "DELETE" }));
  onDone();
}
