// Notifications about the user's runs while a page of the service is open in any tab: a run has ended,
// or its first point has failed.

import { call, facts } from "../api.js";
import { tell } from "../notify.js";
import { countWords } from "./view.js";

const MOST = 50; // runs that are looked at, the newest
let living = null; // failed points by the id of each run that had not ended; null: not loaded yet

export async function lookAtRuns() {
  const { items } = await call("runs", { query: { limit: MOST } });
  for (const run of items) if (living?.has(run.id)) watch(run, living.get(run.id));
  living = new Map(items.filter((run) => run.ended_at === null).map((run) => [run.id, run.counts.failed]));
}

function watch(run, failed) {
  const url = `${facts.prefix}runs/${encodeURIComponent(run.id)}`;
  const words = `${run.name}: ${countWords(run)}.`;
  if (run.ended_at !== null) tell(`run ${run.id} ${run.job_id} ended`, "Your run has ended", words, url);
  else if (!failed && run.counts.failed) tell(`run ${run.id} ${run.job_id} failed`, "A point of your run has failed", words, url);
}
