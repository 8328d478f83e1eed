// The run that another starts after, and the mail about a run, in words.

import { facts } from "../api.js";
import { el } from "../dom.js";

// A link to it; words, if it is not kept any more.
export function afterLink(run) {
  if (!run.after_name) return "a run that is no longer kept";
  return el("a", { href: `${facts.prefix}runs/${encodeURIComponent(run.after)}` }, run.after_name);
}

const EVENTS = { end: "at its end", failure: "at its first failed point" };

// "at its end and at its first failed point"
export const mailWords = (run) => run.notify.map((event) => EVENTS[event]).join(" and ");
