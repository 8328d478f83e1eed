// How far a build is: its steps in order, a bar for the one that runs.

import { el, fill } from "../dom.js";
import { share } from "../words.js";
import { isLive } from "./words.js";

// The steps of portal.images.jobs.building in their order; one that is not known here is shown as it is called.
const STEPS = {
  queue: "Wait for a node",
  prepare: "Prepare",
  pull: "Pull",
  probe: "Look inside",
  install: "Add the server",
  write: "Write the file",
  verify: "Verify",
  sign: "Sign",
};

// What portal.catalog.builds.job_monitor says before the job's first word and after its last.
const OTHERS = { start: "prepare", end: "" };

export class Steps {
  constructor(place) {
    this.place = place;
    this.seen = [];
    this.text = "";
  }

  show(build) {
    const step = OTHERS[build.step] ?? build.step;
    if (step && step !== "done" && !this.seen.includes(step)) this.seen.push(step);
    // A site that does not sign has no such step.
    const known = Object.keys(STEPS).filter((step) => step !== "sign" || this.seen.includes(step));
    const queued = build.state === "waiting" || !build.started_at;
    const now = step || (queued ? "queue" : "prepare");
    const order = [...known, ...this.seen.filter((step) => !known.includes(step))];
    const at = now === "done" ? order.length : order.indexOf(now);
    const text = JSON.stringify([build.state, now, build.share, build.message, order]);
    if (text === this.text) return;
    this.text = text;
    fill(
      this.place,
      order.map((step, number) => {
        const done = build.state === "passed" || number < at;
        const here = number === at && build.state !== "passed";
        const state = done ? "done" : here ? (isLive(build) ? "now" : "ended") : "ahead";
        return el(
          `li.step.step-${state}`,
          { "aria-current": state === "now" ? "step" : null },
          el("span.step-name", {}, STEPS[step] ?? step),
          el("span.portal-quiet", {}, ` ${{ done: "done", now: build.share === null ? "" : share(build.share), ended: build.state, ahead: "" }[state]}`),
          state === "now" ? bar(build, STEPS[step] ?? step) : null,
        );
      }),
    );
  }
}

function bar(build, name) {
  const known = build.share !== null && build.share !== undefined;
  return el("progress.step-bar", { max: 1, value: known ? build.share : null, "aria-label": name });
}
