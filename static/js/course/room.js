// The room of a course: a session of its staff with shared notebooks that everyone in the course may
// enter while it runs.

import { call } from "../api.js";
import { ask, tell } from "../dialog.js";
import { byId, el, fill } from "../dom.js";
import { at, names, when } from "./words.js";

const PAUSE = 4000; // milliseconds
const STATES = { pending: ["waits", "waits for Slurm"], starting: ["waits", "is starting"], running: ["runs", "open"] };

// Shows the room in the part "room", which stays hidden where there is nothing to say; follows it
// while it starts. `staff`: whether the viewer opens and closes it.
export async function showRoom(course, staff) {
  const part = byId("room-part");
  let room;
  try {
    room = await call(at(course, "room"));
  } catch {
    part.hidden = true;
    return;
  }
  part.hidden = !staff && !room.url;
  const [look, words] = STATES[room.state] ?? ["other", "closed"];
  const again = () => showRoom(course, staff);
  fill(
    byId("room-place"),
    el("p", {}, el(`span.state.state-${look}`, {}, words), room.by ? el("span.portal-quiet", {}, ` opened by ${room.by} at `, when(room.asked_at)) : null, room.people.length ? ` · in it: ${names(room.people)}` : ""),
    staff && room.why_not && !room.state ? el("p.portal-quiet", {}, room.why_not) : null,
    el(
      "div.entry-actions.course-steps",
      {},
      room.url ? el("a.btn.btn-sm.btn-jupyter", { href: room.url, target: "_blank", rel: "noopener" }, "Enter the room") : null,
      staff && !room.state && !room.why_not ? el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: () => open(course, again) }, "Open the room") : null,
      staff && room.state ? el("button.btn.btn-sm.btn-outline-danger.portal-danger", { type: "button", onclick: () => close(course, again) }, "Close the room…") : null,
    ),
  );
  if (room.state === "pending" || room.state === "starting") setTimeout(again, PAUSE);
}

async function open(course, done) {
  await tell(async () => (await call(at(course, "room"), { method: "POST", body: {} })).message);
  setTimeout(done, 1500);
}

async function close(course, done) {
  const sure = await ask({ title: "Close the room?", text: "Everyone in it is out. What was written stays in the folder of who opened it.", action: "Close the room", danger: true });
  if (sure === null) return;
  await tell(async () => (await call(at(course, "room"), { method: "DELETE" })).message);
  setTimeout(done, 1500);
}
