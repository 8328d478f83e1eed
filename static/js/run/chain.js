// The run that another starts after.

import { facts } from "../api.js";
import { el } from "../dom.js";

// A link to it; words, if it is not kept any more.
export function afterLink(run) {
  if (!run.after_name) return "a run that is not kept any more";
  return el("a", { href: `${facts.prefix}runs/${encodeURIComponent(run.after)}` }, run.after_name);
}
