// A job's details in a dialog: what runs, where, and how its GPUs and memory were used.

import { facts, may } from "./api.js";
import { el, fill, hidden } from "./dom.js";
import { facts as factList } from "./panel.js";
import { showUse } from "./use.js";
import { capital, duration, exactly, memory, ranges } from "./words.js";

// `onPlace(key)` shows a GPU ("NODE/INDEX") or node of the job.
export function openJob(job, { onPlace }) {
  const back = /** @type {HTMLElement} */ (document.activeElement);
  const use = el("div");
  const close = el("button.btn-close", { type: "button", "aria-label": "Close the details", onclick: () => dialog.close() });
  const dialog = el(
    "dialog.ask.ask-wide",
    { "aria-labelledby": "job-title" },
    el("div.panel-head", el("h2", { id: "job-title" }, `Job ${job.id}`), close),
    factList([
      ["State", capital(job.words.replace(/^it is /i, ""))],
      job.name ? ["Name", job.name] : null,
      ["User", job.mine ? `${job.user} (you)` : (job.user ?? "another user")],
      job.account ? ["Account", job.account] : null,
      job.portal ? ["Runs", runs(job)] : null,
      job.environment ? ["Environment", job.environment] : null,
      ["Partition", [job.partition, job.qos && `QOS ${job.qos}`].filter(Boolean).join(", ")],
      ["Resources", [job.gpus ? `${job.gpus} × ${job.gpu_type || "GPU"}` : "", `${job.cpus} CPUs`, job.memory === null ? "" : memory(job.memory)].filter(Boolean).join(", ")],
      job.nodes.length ? ["Nodes", places(job, (key) => {
        dialog.close();
        onPlace(key);
      })] : null,
      ["Submitted", exactly(job.submit_time)],
      job.start_time === null ? null : ["Started", exactly(job.start_time)],
      ["Time limit", job.time_limit === null ? "none" : duration(job.time_limit)],
    ]),
    use,
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (back?.isConnected && document.activeElement === document.body) back.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
  // What others' jobs do over time, only those see who see their names.
  if (job.start_time === null || !(job.mine || may("jobs:read"))) return;
  const place = el("div", { role: "status" }, el("p.portal-quiet", "Loading…"));
  fill(use, el("h3", "Use over time"), place);
  showUse(place, `jobs/${encodeURIComponent(job.id)}`).catch((error) => fill(place, el("p.portal-quiet", error.message)));
}

// What runs in a session. It leads to the session's page, and to the viewer's own run; others' only their users see.
export function runs(job, words = [job.work ?? "session", job.work_name].filter(Boolean).join(" "), look = "") {
  if (!job.session_id || !(job.mine || may("sessions:read"))) return el(`span${look}`, words);
  const page = job.work === "run" && job.mine ? `runs/${encodeURIComponent(job.work_id)}` : `sessions/${encodeURIComponent(job.session_id)}`;
  return el(`a${look}`, { href: facts.prefix + page }, words, hidden(` of job ${job.id}`));
}

function places(job, onPlace) {
  return el(
    "ul.job-places",
    job.nodes.map((node) => {
      const indexes = job.gpu_indexes[node] ?? [];
      const key = indexes.length ? `${node}/${indexes[0]}` : node;
      return el("li", el("button.as-link", { type: "button", onclick: () => onPlace(key) }, indexes.length ? `${node}: GPU ${ranges(indexes)}` : node));
    }),
  );
}
