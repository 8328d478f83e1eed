// Progress of a build: its steps in order, with a bar for the running one.

import { differs, el, fill } from "../dom.js";
import { share } from "../words.js";
import { isLive } from "./words.js";

// The steps of portal.images.jobs.building in order; others are shown by their own name.
const STEPS = {
  queue: "Wait for a node",
  prepare: "Prepare",
  pull: "Pull",
  probe: "Inspect the image",
  install: "Add the server",
  write: "Write the image file",
  verify: "Verify",
  sign: "Sign",
};

// Steps of portal.catalog.builds.job_monitor before the job's first event and after its last.
const OTHERS = { start: "prepare", end: "" };

export class Steps {
  constructor(place) {
    this.place = place;
    this.seen = [];
  }

  show(build) {
    const step = OTHERS[build.step] ?? build.step;
    if (step && step !== "done" && !this.seen.includes(step)) this.seen.push(step);
    // Sites that do not sign images have no such step.
    const known = Object.keys(STEPS).filter((step) => step !== "sign" || this.seen.includes(step));
    const queued = build.state === "waiting" || !build.started_at;
    const now = step || (queued ? "queue" : "prepare");
    const order = [...known, ...this.seen.filter((step) => !known.includes(step))];
    const at = now === "done" ? order.length : order.indexOf(now);
    if (!differs(this, [build.state, now, build.share, build.message, order])) return;
    fill(
      this.place,
      order.map((step, number) => {
        const done = build.state === "passed" || number < at;
        const here = number === at && build.state !== "passed";
        const state = done ? "done" : here ? (isLive(build) ? "now" : "ended") : "ahead";
        return el(
          `li.step.step-${state}`,
          { "aria-current": state === "now" ? "step" : null },
          el("span.step-name", STEPS[step] ?? step),
          el("span.portal-quiet", ` ${{ done: "done", now: build.share === null ? "" : share(build.share), ended: build.state, ahead: "" }[state]}`),
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
