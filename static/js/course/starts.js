// The last starts of a course that are over, each with its outcome.

import { call } from "../api.js";
import { byId, el, fill } from "../dom.js";
import { KINDS, outcome } from "./starting.js";
import { at, momentWords } from "./words.js";

const MOST = 10;

// `zone` is the course's.
export async function pastStarts(course, zone) {
  const { items } = await call(at(course, "starts")).catch(() => ({ items: [] }));
  const over = items.filter((start) => start.ended_at && start.kind !== "rehearsal").slice(0, MOST);
  byId("past").hidden = !over.length;
  fill(byId("past-list"), over.map((start) => entry(course, zone, start)));
}

// The seats, thirty and more, come when somebody looks.
function entry(course, zone, start) {
  const place = el("div", el("p.portal-quiet", "Loading…"));
  const element = el("details.past-start", el("summary", `${momentWords(start.meeting_at ?? start.asked_at, zone)}: ${KINDS[start.kind] ?? "Start"}`), place);
  element.addEventListener("toggle", () => load(course, start, place), { once: true });
  return element;
}

async function load(course, start, place) {
  try {
    fill(place, outcome(await call(at(course, "starts", start.id))));
  } catch (error) {
    fill(place, el("p.why", error.message));
  }
}
