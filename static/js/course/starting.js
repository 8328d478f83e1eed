// How far a start of a whole course is, as it goes on: a bar, words, and what failed.

import { call } from "../api.js";
import { tell } from "../dialog.js";
import { el, fill } from "../dom.js";
import { count, duration } from "../words.js";
import { SEAT_STATES, at, names } from "./words.js";

const PAUSE = 2000; // milliseconds
const KINDS = { meeting: "For the meeting", all: "Start all", rehearsal: "Rehearsal" };
const READY = ["ready", "claimed", "released"];

export class Starting {
  // `place` is filled while a start goes on, and keeps what came of it.
  constructor(course, place, onDone = () => {}) {
    this.course = course;
    this.place = place;
    this.onDone = onDone;
  }

  // Follows one; without a number the newest that goes on, if there is one.
  async follow(id = null) {
    clearTimeout(this.timer);
    try {
      if (id === null) {
        const { items } = await call(at(this.course, "starts"));
        const live = items.map(start).find((one) => !one.ended_at);
        if (!live) return;
        id = live.id;
      }
      this.show(await call(at(this.course, "starts", id)), id);
    } catch (error) {
      if (error.status === 404) return;
      this.timer = setTimeout(() => this.follow(id), 5 * PAUSE);
    }
  }

  show(answer, id) {
    const one = start(answer);
    const seats = answer.seats ?? [];
    const groups = Map.groupBy ? Map.groupBy(seats, (seat) => seat.state) : grouped(seats);
    const ready = READY.reduce((sum, state) => sum + (groups.get(state)?.length ?? 0), 0);
    const failed = groups.get("failed") ?? [];
    const over = Boolean(one.ended_at);
    const words = Object.entries(SEAT_STATES)
      .map(([state, text]) => [groups.get(state)?.length ?? 0, text])
      .filter(([number]) => number)
      .map(([number, text]) => `${number} ${text}`)
      .join(", ");
    this.place.hidden = false;
    const reasons = new Map();
    for (const seat of failed) reasons.set(seat.message, [...(reasons.get(seat.message) ?? []), seat.person]);
    fill(
      this.place,
      el(
        "div.starting",
        { role: "group", "aria-label": KINDS[one.kind] ?? "Start" },
        el("p", {}, el("strong", {}, KINDS[one.kind] ?? "Start"), ` by ${one.by}: ${words || count(seats.length, "session")}.`, one.message ? ` ${one.message}` : ""),
        over ? null : el("progress", { max: Math.max(1, seats.length), value: ready + failed.length, "aria-label": `${ready} of ${seats.length} are ready` }),
        failed.length ? el("ul.plain.seat-bad", {}, [...reasons].map(([why, who]) => el("li", {}, `${names(who)}: ${why}`))) : null,
        answer.report ? reportOf(answer.report) : null,
        el(
          "div.entry-actions",
          {},
          over
            ? el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => (this.place.hidden = true) }, "Close")
            : el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#cancel(id) }, "Call it off"),
        ),
      ),
    );
    if (over) this.onDone();
    else this.timer = setTimeout(() => this.follow(id), PAUSE);
  }

  async #cancel(id) {
    await tell(async () => {
      await call(at(this.course, "starts", id, "cancel"), { method: "POST", body: {} });
      return "It is called off: nothing more is started.";
    });
    this.follow(id);
  }
}

const start = (answer) => answer.start ?? answer;

function grouped(seats) {
  const made = new Map();
  for (const seat of seats) made.set(seat.state, [...(made.get(seat.state) ?? []), seat]);
  return made;
}

// A rehearsal's report: numbers as they are, durations in words.
function reportOf(report) {
  const rows = Object.entries(report).filter(([, value]) => typeof value === "number" || (typeof value === "string" && value));
  return el(
    "dl.facts",
    {},
    rows.map(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, typeof value === "number" && !Number.isInteger(value) ? duration(value) : String(value))]),
  );
}
