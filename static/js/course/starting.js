// The progress of a start for a whole course: a bar, numbers, and failures.

import { call } from "../api.js";
import { perform, tell } from "../dialog.js";
import { button, el, fill } from "../dom.js";
import { Poller } from "../poller.js";
import { count, duration } from "../words.js";
import { reasons } from "./everyone.js";
import { SEAT_STATES, at } from "./words.js";

const PAUSE = 2000; // milliseconds
export const KINDS = { meeting: "Start for the meeting", all: "Start all", rehearsal: "Rehearsal" };
const READY = ["ready", "claimed", "released"];

export class Starting {
  // `place` shows the start while it is in progress, and its result afterwards.
  constructor(course, place, onDone = () => {}) {
    this.course = course;
    this.place = place;
    this.onDone = onDone;
    this.id = null;
    this.poller = new Poller({ every: 5 * PAUSE, ask: () => this.#ask(), onTrouble: () => {} });
  }

  // Starts sessions for all students without one.
  all() {
    return tell(async () => {
      const start = await call(at(this.course, "starts"), { method: "POST", body: { kind: "all" } });
      this.follow(start.id);
      return "Starting sessions for all students without one.";
    });
  }

  // Follows the start with this id; without an id, the newest that is in progress, if any.
  follow(id = null) {
    this.id = id;
    return this.poller.now();
  }

  async #ask() {
    if (this.id === null) {
      const { items } = await call(at(this.course, "starts"));
      this.id = items.find((start) => !start.ended_at)?.id ?? null;
      if (this.id === null) return null;
    }
    const answer = await call(at(this.course, "starts", this.id));
    this.show(answer, this.id);
    return answer.start.ended_at ? null : PAUSE;
  }

  show(answer, id) {
    const { start, seats } = answer;
    const over = Boolean(start.ended_at);
    const { ready, failed } = byState(seats);
    this.place.hidden = false;
    fill(
      this.place,
      el(
        "div.starting",
        { role: "group", "aria-label": KINDS[start.kind] ?? "Start" },
        words(answer),
        over ? null : el("progress", { max: Math.max(1, seats.length), value: ready + failed.length, "aria-label": `${ready} of ${seats.length} ready` }),
        failures(failed),
        over || start.kind === "rehearsal" ? reportOf(answer.report) : null,
        el(
          "div.entry-actions",
          over ? button("Close", () => (this.place.hidden = true)) : button("Cancel start", () => this.#cancel(id)),
        ),
      ),
    );
    if (over) this.onDone();
  }

  async #cancel(id) {
    await perform(call(at(this.course, "starts", id, "cancel"), { method: "POST", body: {} }), "Start cancelled. No more sessions are started.");
    this.follow(id);
  }
}

function byState(seats) {
  const groups = Map.groupBy(seats, (seat) => seat.state);
  const ready = READY.reduce((sum, state) => sum + (groups.get(state)?.length ?? 0), 0);
  return { groups, ready, failed: groups.get("failed") ?? [] };
}

function words({ start, seats }) {
  const { groups } = byState(seats);
  const numbers = Object.entries(SEAT_STATES)
    .map(([state, text]) => [groups.get(state)?.length ?? 0, text])
    .filter(([number]) => number)
    .map(([number, text]) => `${number} ${text}`)
    .join(", ");
  const message = start.message && start.kind !== "rehearsal" ? ` ${start.message}` : "";
  return el("p", el("strong", KINDS[start.kind] ?? "Start"), ` by ${start.by}: ${numbers || count(seats.length, "session")}.`, message);
}

const failures = (failed) => (failed.length ? reasons(failed, ".seat-bad") : null);

// What came of a start that is over.
export function outcome(answer) {
  return el("div.starting", words(answer), failures(byState(answer.seats).failed), reportOf(answer.report));
}

// The result (portal.models.course.start.StartReport).
function reportOf(report) {
  const parts = [
    `${report.ready} of ${report.total} were ready`,
    report.median === null ? null : `half of them after ${duration(report.median)}`,
    report.last === null ? null : `the last after ${duration(report.last)}`,
  ].filter(Boolean);
  return el(
    "div",
    el("p", `${parts.join(", ")}.`),
    report.missing.length ? el("ul.plain.seat-bad", report.missing.map((words) => el("li", words))) : null,
  );
}
