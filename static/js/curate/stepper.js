// Build → Test → Publish: how far a version of an environment is, in the header of its pages.

import { el, hidden, icon } from "../dom.js";

const LOOKS = {
  done: ["check", "done"],
  now: ["spinner", "under way"],
  failed: ["xmark", "failed"],
  next: ["arrow-right", "next"],
  ahead: ["", "later"],
};

// The steps of a version (VersionFacts), each with its state.
export function stepsOf({ state, environment, published_at: published }) {
  const builds = environment.kind === "container" && Boolean(environment.source);
  const built = !builds || Boolean(environment.image) || state === "testing" || state === "ready" || published !== null;
  const build = built ? "done" : state === "building" ? "now" : state === "failed" ? "failed" : "next";
  const tested = state === "ready" || published !== null;
  const test = tested ? "done" : !built ? "ahead" : state === "testing" ? "now" : state === "failed" ? "failed" : "next";
  const publish = published !== null ? "done" : tested ? "next" : "ahead";
  return [...(builds ? [["Build", build]] : []), ["Test", test], ["Publish", publish]];
}

export function stepper(version) {
  return el(
    "ol.stepper",
    { "aria-label": `Version ${version.number}` },
    stepsOf(version).map(([name, state]) => {
      const [sign, words] = LOOKS[state];
      return el(`li.stepper-${state}`, { "aria-current": state === "next" || state === "now" ? "step" : null }, sign ? icon(sign) : null, ` ${name}`, hidden(`: ${words}`));
    }),
  );
}
