// Words, times and API paths that the course pages share.

import { facts } from "../api.js";
import { el } from "../dom.js";
import { pill } from "../status.js";
import { clock, duration, exactly } from "../words.js";

export const coursePage = (name, more = "") => `${facts.prefix}courses/${encodeURIComponent(name)}${more}`;
/** @type {import("../../types/call").PathBelow<"courses">} */
export const at = (name, ...more) => /** @type {any} */ (["courses", name, ...more].map((step) => encodeURIComponent(step)).join("/"));
/** @type {import("../../types/course").PersonPath} */
export const person = (course, name, ...more) => /** @type {any} */ (at(course, "people", name, ...more));

// portal.models.course.board.TileState
export const tileState = (state) => pill(state, state === "none" ? "not started" : state);

// portal.models.course.start.SeatState
export const SEAT_STATES = {
  waiting: "queued",
  starting: "starting",
  ready: "ready",
  claimed: "in use",
  released: "released",
  failed: "failed",
  skipped: "skipped",
};

export const when = (moment) => (moment ? el("span.nowrap", { title: exactly(moment) }, clock(moment)) : "–");
export const ago = (moment, now) => (moment ? `${duration(Math.max(0, now - moment))} ago` : "");

const TIMES = new Map();

// A meeting in the course's own time zone: "Mon 23 Nov, 09:00–10:30".
export function meetingWords({ begins, ends }, zone) {
  return `${momentWords(begins, zone)}–${formats(zone)[1].format(ends * 1000)}`;
}

// "Mon 23 Nov, 09:00"
export function momentWords(moment, zone) {
  const [day, time] = formats(zone);
  return `${day.format(moment * 1000)}, ${time.format(moment * 1000)}`;
}

function formats(zone) {
  if (!TIMES.has(zone)) {
    TIMES.set(zone, [
      new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: zone }),
      new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: zone }),
    ]);
  }
  return TIMES.get(zone);
}

// A list of names that stays short.
export function names(list, most = 8) {
  const shown = list.slice(0, most).join(", ");
  return list.length > most ? `${shown} and ${list.length - most} more` : shown;
}
