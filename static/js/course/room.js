// The room of a course: a session of its staff with shared notebooks, open to everyone in the course
// while it runs.

import { call } from "../api.js";
import { confirmed, perform } from "../dialog.js";
import { byId, el, fill } from "../dom.js";
import { Poller } from "../poller.js";
import { enter } from "../enter.js";
import { pill } from "../status.js";
import { at, names, when } from "./words.js";

const PAUSE = 4000; // milliseconds
const STATES = { pending: "waiting in the queue", starting: "starting", running: "open" };

// Shows the room in the part "room", which stays hidden if there is none, and updates it while it
// starts. `staff`: whether the viewer may open and close it.
export function showRoom(course, staff) {
  const part = byId("room-part");
  const poller = new Poller({
    every: PAUSE,
    ask: async () => {
      const room = await call(at(course, "room")).catch(() => null);
      part.hidden = !room || (!staff && !room.url);
      if (!room) return null;
      show(course, staff, room, poller);
      return room.state === "pending" || room.state === "starting" ? PAUSE : null;
    },
  });
  poller.now();
}

function show(course, staff, room, poller) {
  fill(
    byId("room-place"),
    el("p", pill(STATES[room.state] ? room.state : "none", STATES[room.state] ?? "closed"), room.by ? el("span.portal-quiet", ` opened by ${room.by} at `, when(room.asked_at)) : null, room.people.length ? ` · in the room: ${names(room.people)}` : ""),
    staff && room.why_not && !room.state ? el("p.portal-quiet", room.why_not) : null,
    el(
      "div.entry-actions.course-steps",
      room.url ? el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => enter(at(course, "room", "enter")) }, "Enter the room") : null,
      staff && !room.state && !room.why_not ? el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => open(course, poller) }, "Open the room") : null,
      staff && room.state ? el("button.btn.btn-sm.btn-outline-danger.portal-danger", { type: "button", onclick: () => close(course, poller) }, "Close the room…") : null,
    ),
  );
}

async function open(course, poller) {
  await perform(call(at(course, "room"), { method: "POST", body: {} }));
  poller.in(1500);
}

async function close(course, poller) {
  const question = { title: "Close the room?", text: "Everyone in the room is disconnected. Its files stay in the folder of the user who opened it.", action: "Close the room", danger: true };
  await confirmed(question, () => call(at(course, "room"), { method: "DELETE" }));
  poller.in(1500);
}
