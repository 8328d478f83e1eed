// The user's clusters of workers on the Sessions page: how many run, why others do not, their dashboard, their end.

import { call } from "./api.js";
import { ask, perform } from "./dialog.js";
import { byId, el, fill, hidden, setText } from "./dom.js";
import { pill } from "./status.js";
import { count } from "./words.js";

const ENGINES = { "dask-worker": "Dask", "ray-worker": "Ray" };
let shown = ""; // what the list shows; it stays if nothing has changed, with the focus in it

// Whether a session is a worker of a cluster.
export const isWorker = (session) => Boolean(session.options.dask ?? session.options.ray);

// Shows the clusters beside the user's live `sessions`. `onDone` is called after one was stopped.
export async function showClusters(sessions, onDone) {
  if (!byId("clusters")) return;
  const { items } = await call("replica-sets");
  const clusters = items.filter((item) => ENGINES[item.work] && (item.replicas || item.running.length));
  const opens = sessions.map((session) => [session.job_id, session.links.open]);
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

function entry(cluster, sessions, onDone) {
  const { id, work, replicas, running, problem, options } = cluster;
  const own = sessions.find((session) => session.job_id && session.job_id === options.dask?.session);
  const ready = running.filter((worker) => worker.state === "running" && worker.number < replicas).length;
  const state = !replicas ? "stopping" : ready < replicas ? "waiting" : "running";
  const name = `${ENGINES[work]} cluster ${id.slice(0, 6)}`;
  // Ray's has none: `own` is found by a Dask cluster's session only.
  const dashboard = own?.links.open ? `${own.links.open}portal/clusters/${encodeURIComponent(id)}/status` : "";
  return el(
    "li.entry",
    { dataset: { cluster: id } },
    el(
      "div",
      {},
      el("h3", {}, name),
      el("p.portal-facts", {}, pill(state), el("span", {}, `${ready} of ${count(replicas, "worker")}`), el("span", {}, options.environment)),
      problem ? el("p.why", {}, problem) : null,
    ),
    el(
      "div.entry-actions",
      {},
      dashboard
        ? el("a.btn.btn-sm.btn-outline-contrast", { href: dashboard, target: "_blank", rel: "noopener" }, "Open dashboard", hidden(` of ${name}`))
        : null,
      replicas
        ? el("button.btn.btn-sm.btn-outline-danger.portal-danger", { type: "button", onclick: () => stop(cluster, name, onDone) }, "Stop", hidden(` ${name}`))
        : null,
    ),
  );
}

async function stop({ id, replicas }, name, onDone) {
  const text = `Its ${count(replicas, "worker")} and what they have in memory are gone. The notebook and its session go on.`;
  if ((await ask({ title: `Stop ${name}?`, text, action: "Stop", danger: true, keep: "Keep running" })) === null) return;
  await perform(call(`replica-sets/${encodeURIComponent(id)}`, { method: "DELETE" }));
  onDone();
}
