// Build → Test → Publish: how far a version of an environment is, in the header of its pages.

import { el, hidden, icon } from "../dom.js";
import { isLive } from "./words.js";

const LOOKS = {
  done: ["check", "done"],
  now: ["spinner", "under way"],
  failed: ["xmark", "failed"],
  next: ["arrow-right", "next"],
  ahead: ["", "later"],
};

// The steps of a version, each with its state. `work`: its build, where that is known.
function stepsOf({ state: reached, environment, published_at: published }, work) {
  const builds = work !== null || (environment.kind === "container" && Boolean(environment.source));
  const state = work && work.state !== "passed" ? (isLive(work) ? "building" : "failed") : reached;
  const built = work ? work.state === "passed" : !builds || Boolean(environment.image) || state === "testing" || state === "ready" || published !== null;
  const build = built ? "done" : state === "building" ? "now" : state === "failed" ? "failed" : "next";
  const tested = state === "ready" || published !== null;
  const test = tested ? "done" : !built ? "ahead" : state === "testing" ? "now" : state === "failed" ? "failed" : "next";
  const publish = published !== null ? "done" : tested ? "next" : "ahead";
  return [...(builds ? [["Build", build]] : []), ["Test", test], ["Publish", publish]];
}

export function stepper(version, work = null) {
  return el(
    "ol.stepper",
    { "aria-label": `Version ${version.number}` },
    stepsOf(version, work).map(([name, state]) => {
      const [sign, words] = LOOKS[state];
      return el(`li.stepper-${state}`, { "aria-current": state === "next" || state === "now" ? "step" : null }, sign ? icon(sign) : null, ` ${name}`, hidden(`: ${words}`));
    }),
  );
}
