// The user's schedules of runs: their times, the last run of each, and pause, resume, delete.

import { call, facts } from "../api.js";
import { confirmed, perform } from "../dialog.js";
import { button, byId, el, hidden, setText } from "../dom.js";
import { Poller } from "../poller.js";
import { DAYS } from "./schedule.js";
import { Table } from "../table.js";
import { time } from "./view.js";
import { count } from "../words.js";

const EVERY = 30000;
const link = (id, words) => el("a", { href: `${facts.prefix}runs/${encodeURIComponent(id)}` }, words);
/** @type {(schedule: any) => `runs/schedules/${string}`} */
const path = (schedule) => `runs/schedules/${encodeURIComponent(schedule.id)}`;

const table = new Table(byId("schedules"), {
  label: "schedules-title",
  key: (schedule) => schedule.id,
  columns: [
    { head: "Run", cell: (schedule) => link(schedule.runs.at(-1).id, schedule.name) },
    { head: "Times", cell: timesWords, wide: true },
    { head: "Next", cell: next },
    { head: "Last", cell: (schedule) => (schedule.last_run ? link(schedule.last_run, time(schedule.last_at)) : time(schedule.last_at)) },
    { head: "Message", cell: (schedule) => el("span.point-message", schedule.message), wide: true },
    { head: "", cell: buttons },
  ],
});
const poller = new Poller({ every: EVERY, ask: load });

// "02:00 each day (Europe/Berlin) until 2027-02-28; chain: prepare → train"
function timesWords(schedule) {
  const days = schedule.days.length === 7 ? "each day" : schedule.days.map((day) => DAYS[day]).join(", ");
  const until = schedule.until ? ` until ${schedule.until}` : "";
  const names = schedule.runs.map((run) => run.name);
  const chain = names.length > 1 ? `; chain: ${names.join(" → ")}` : "";
  return `${schedule.at} ${days} (${schedule.timezone})${until}${chain}`;
}

function next(schedule) {
  if (schedule.paused) return "paused";
  return schedule.next_at === null ? "ended" : time(schedule.next_at);
}

function buttons(schedule) {
  const name = ` the schedule of ${schedule.name} at ${schedule.at}`;
  const does = (words, act) => button([words, hidden(name)], act);
  return el(
    "div.schedule-buttons",
    schedule.paused ? does("Resume", () => pause(schedule, false)) : null,
    schedule.paused || schedule.next_at === null ? null : does("Pause", () => pause(schedule, true)),
    does("Delete…", () => remove(schedule)),
  );
}

async function pause(schedule, paused) {
  await perform(call(path(schedule), { method: "PUT", body: { paused } }), paused ? "The schedule is paused." : "The schedule is resumed.");
  poller.now();
}

async function remove(schedule) {
  const question = { title: `Delete the schedule of “${schedule.name}”?`, text: "Runs that it has already started are not affected.", action: "Delete schedule", danger: true };
  await confirmed(question, () => call(path(schedule), { method: "DELETE" }));
  poller.now();
}

async function load() {
  const { items } = await call("runs/schedules");
  byId("schedules-part").hidden = !items.length;
  setText(byId("schedules-count"), items.length ? count(items.length, "schedule") : "");
  table.show(items, "");
}

poller.now();
