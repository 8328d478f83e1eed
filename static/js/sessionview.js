// A session as a card and in detail: its state, why it ended, its resource usage.

import { call, facts, may, now } from "./api.js";
import { ask, confirmed, readBy, tell } from "./dialog.js";
import { announce, el, hidden, icon } from "./dom.js";
import { extendButton } from "./extend.js";
import { menu } from "./menu.js";
import { moveButton } from "./move.js";
import { facts as factList, level } from "./panel.js";
import { pill } from "./status.js";
import { capital, clock, count, duration, exactly, gpuTime, memory, ranges, share } from "./words.js";

// Endings that are errors.
const BAD = new Set(["out_of_memory", "node_failure", "preempted", "start_failed", "failed"]);

export const isLiving = (session) => session.state !== "ended";
export const titleOf = (session) => session.environment_title || session.environment || "Session";

// "2 × v100, 8 CPUs, 32 GB, for 2 h 00 min"
export function resources(session) {
  const { gpus, gpu_type: type, cpus, memory: size, nodes } = session.options;
  const parts = [];
  if (gpus) parts.push(`${gpus} × ${type || "GPU"}`);
  if (cpus) parts.push(count(cpus, "CPU"));
  if (size) parts.push(session.efficiency.memory_asked ? memory(session.efficiency.memory_asked) : size);
  if (nodes > 1) parts.push(count(nodes, "node"));
  const { time_asked: asked, time_limit: limit } = session.efficiency;
  if (asked) parts.push(`for ${duration(asked)}${limit > asked ? `, extended to ${duration(limit)}` : ""}`);
  return parts.join(", ");
}

// "gpu01: GPU 0–1"
export function place(session) {
  return session.nodes
    .map((node) => {
      const gpus = session.gpu_indexes[node];
      return gpus?.length ? `${node}: GPU ${ranges(gpus)}` : node;
    })
    .join(", ");
}

// The state, as a pill, and what follows from it in words.
export function state(session) {
  if (session.state === "ended") {
    const code = session.ending?.code ?? "unknown";
    return pill(BAD.has(code) ? "failed" : code === "unknown" ? "uncertain" : "ended", session.ending?.title ?? "Ended");
  }
  const words = [capital(session.words.replace(/^it is /i, ""))];
  if (session.position) words.push(`position ${session.position} in the queue`);
  if (session.expected_start) words.push(`expected ${clock(session.expected_start)}`);
  return pill(session.state, words.join(", "));
}

// How long a session that has ended ran.
export const ran = (session) =>
  session.started_at ? `ran ${duration((session.ended_at ?? now()) - session.started_at)}` : "never ran";

// Since when a session waits or runs, in words; `since` is when the data was fetched.
export function times(session, since) {
  if (session.state === "pending") return `waiting for ${duration(now() - session.submitted_at)}`;
  const parts = [`since ${clock(session.started_at ?? session.submitted_at)}`];
  if (session.time_left !== null) parts.push(`${duration(session.time_left - (now() - since))} left`);
  return parts.join(", ");
}

// Resource usage: bars with numbers and words, or "not measured".
export function efficiency(session) {
  const e = session.efficiency;
  const not = () => el("span.unknown", "not measured");
  const rows = [];
  if (e.gpus) {
    let words = not();
    if (e.gpu_busy_share !== null) {
      const used = `${share(e.gpu_busy_share)} busy: ${gpuTime(e.gpu_hours_used, e.gpu_hours_held)}`;
      const partly = e.gpu_measured_share !== null && e.gpu_measured_share < 0.95;
      words = el(
        "span",
        level(100 * e.gpu_busy_share, used),
        partly ? el("span.portal-quiet", ` ${share(e.gpu_measured_share)} of that time was measured. `) : null,
        source(e.gpu_source),
      );
    } else if (e.gpu_hours_held !== null) {
      words = el("span", `${gpuTime(null, e.gpu_hours_held)} held, use `, not());
    }
    rows.push(["GPUs", words]);
  }
  rows.push([
    "Memory",
    e.memory_peak === null
      ? not()
      : el(
          "span",
          level(
            e.memory_asked ? (100 * e.memory_peak) / e.memory_asked : null,
            e.memory_asked ? `peak ${memory(e.memory_peak)} of ${memory(e.memory_asked)}` : `peak ${memory(e.memory_peak)}`,
          ),
          e.memory_source === "session" ? source(e.memory_source) : null,
        ),
  ]);
  if (e.time_used !== null) {
    rows.push([
      "Time",
      level(
        e.time_limit ? (100 * e.time_used) / e.time_limit : null,
        e.time_limit ? `${duration(e.time_used)} of ${duration(e.time_limit)}` : duration(e.time_used),
      ),
    ]);
  }
  return factList(rows);
}

function source(name) {
  if (name === "simulated") return el("span.badge.portal-simulated", "simulated");
  if (name === "session") return el("span.portal-quiet", "as reported by the session");
  return null;
}

// Suggested resources for the next session.
export function suggestion(session) {
  if (!session.suggestion) return null;
  return el(
    "div.suggestion",
    icon("lightbulb"),
    el("ul", { "aria-label": "Suggestions for the next session" }, session.suggestion.words.map((words) => el("li", words))),
  );
}

// The page of a session, as a link.
export const link = (session, words) => el("a", { href: `${facts.prefix}sessions/${encodeURIComponent(session.id)}` }, words);

// What a session has and where it runs.
export const sessionFacts = (session) => [
  session.user === facts.user ? null : el("span", session.user),
  el("span", resources(session)),
  session.nodes.length ? el("span", place(session)) : null,
  session.job_id ? el("span", `job ${session.job_id}`) : null,
  session.in_space ? el("span", session.in_space) : null,
];

// What opens below the line of a session.
export const details = (session) =>
  el(
    "div.row-details",
    el("div", el("p.portal-facts", sessionFacts(session)), suggestion(session)),
    session.started_at ? el("div.entry-side", efficiency(session)) : null,
  );

// The session's actions: the main one, in this `look`, the extension, and all others in "⋯". `onDone` is called
// afterwards.
export function actions(session, onDone, { detail = true, title = titleOf(session), look = "btn-jupyter" } = {}) {
  const of = `${title}${session.job_id ? `, job ${session.job_id}` : ""}`;
  const name = ` ${of}`;
  const { links, mine } = session;
  const goTo = (href, words, more = {}) => (href ? el(`a.btn.btn-sm.${look}`, { href, ...more }, words, hidden(name)) : null);
  const run = (words, onclick, danger = "") => el(`button.btn.btn-sm${danger}`, { type: "button", onclick }, words, hidden(name));
  const [main, ...others] = [
    goTo(links.open, "Open"),
    goTo(links.progress, "Show progress"),
    session.options.run && mine ? goTo(`${facts.prefix}runs/${encodeURIComponent(session.options.run.id)}`, "Open run") : null,
    goTo(links.launch_suggested, "Launch as suggested"),
    goTo(links.launch_again, "Launch again"),
  ].filter(Boolean);
  return el(
    "div.entry-actions",
    main,
    extendButton(session, name, onDone),
    menu(
      of,
      ...others,
      ...(session.programs ?? []).map(({ title: program, url }) => goTo(url, `Open ${program}`, { target: "_blank", rel: "noopener" })),
      goTo(links.open && `${links.open}portal/tensorboard/`, "TensorBoard"),
      !mine && session.has_page && session.state === "running" && may("servers:open") ? run("Open…", () => openOther(session)) : null,
      moveButton(session, name, onDone),
      session.log_folders ? run("Open logs in TensorBoard", () => openLogs(session)) : null,
      detail ? link(session, ["Details and log", hidden(name)]) : null,
      isLiving(session) && (mine || may("jobs:manage"))
        ? run(session.state === "running" ? "Stop" : "Cancel", () => stop(session, onDone), ".portal-danger")
        : null,
    ),
  );
}

export async function stop(session, onDone) {
  const runs = session.state === "running";
  const question = {
    title: runs ? "Stop this session?" : "Cancel this session?",
    text: `${session.mine ? "" : `Owner: ${session.user}. `}${titleOf(session)}${session.job_id ? `, job ${session.job_id}` : ""}. ${runs ? "Saved files are kept; data in memory is lost." : "The job leaves the queue."}`,
    action: runs ? "Stop" : "Cancel session",
    danger: true,
    keep: runs ? "Keep running" : "Keep waiting",
    field: session.mine ? null : readBy(session.user),
  };
  await confirmed(question, (reason) => call(`sessions/${encodeURIComponent(session.id)}/stop`, { method: "POST", body: { reason } }));
  onDone();
}

// Starts a TensorBoard of the session's logs in a small job; the page that follows the start opens it.
async function openLogs(session) {
  const folders = await ask({
    title: "Open logs in TensorBoard",
    text: "TensorBoard runs in a separate job without GPUs and ends by itself. A more specific folder loads faster.",
    action: "Open",
    field: {
      label: "Log folders, one per line (~ is your home)",
      required: true,
      maxlength: 20000,
      rows: 3,
      value: session.log_folders.join("\n"),
    },
  });
  if (folders === null) return;
  await tell(async () => {
    announce("TensorBoard is starting.");
    const { url } = await call(`sessions/${encodeURIComponent(session.id)}/tensorboard`, {
      method: "POST",
      body: { folders: folders.split("\n").map((line) => line.trim()).filter(Boolean) },
    });
    window.location.assign(url);
  });
}

export async function openOther(session) {
  const reason = await ask({
    title: `Open ${session.user}’s session?`,
    text: "You can see and change this user’s files and running code. The access is recorded in the audit log.",
    action: "Open",
    danger: true,
    field: { label: "Reason", required: true },
  });
  if (reason === null) return;
  await tell(async () => {
    const { url } = await call(`sessions/${encodeURIComponent(session.id)}/open`, { method: "POST", body: { reason } });
    window.location.assign(url);
  });
}

// From submission to end: time waiting, starting and running.
export function timeline(session) {
  const end = session.ended_at ?? now();
  const steps = [
    ["waited", "waiting", session.submitted_at, session.started_at ?? end],
    ["started", "starting", session.started_at, session.ready_at ?? end],
    ["ran", "running", session.ready_at, end],
  ].filter(([, , from, to]) => from !== null && to !== null && to >= from);
  const least = (end - session.submitted_at) / 100; // so that each can be seen
  const bar = steps.map(([name, , from, to]) => el(`span.timeline-${name}`, { style: { flexGrow: Math.max(to - from, least) } }));
  const signs = steps.map(([name, words, from, to]) => el("li", el(`span.column-sign.timeline-${name}`), ` ${words} ${duration(to - from)}`));
  const rows = [
    ["Submitted", exactly(session.submitted_at)],
    session.started_at ? ["Job started", `${exactly(session.started_at)}, after ${duration(session.started_at - session.submitted_at)} of waiting`] : null,
    session.ready_at ? ["Server ready", `${exactly(session.ready_at)}, ${duration(session.ready_at - (session.started_at ?? session.submitted_at))} later`] : null,
    session.ended_at ? ["Ended", `${exactly(session.ended_at)}${session.started_at ? `, ${duration(session.ended_at - session.started_at)} after the job started` : ""}`] : null,
  ];
  return el("div.timeline", el("div.timeline-bar", { "aria-hidden": "true" }, bar), el("ul.column-signs", { "aria-hidden": "true" }, signs), factList(rows));
}
