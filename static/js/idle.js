// Idle GPUs of a session: since when, what happens next, and the snooze.

import { call, may, now } from "./api.js";
import { tell } from "./dialog.js";
import { button, el, hidden } from "./dom.js";
import { clock, count, duration } from "./words.js";

// An alert after the owner is notified, a quiet line before; null if nothing is idle.
export function idleWords(session, name, onDone) {
  const idle = session.idle;
  if (!idle?.idle_since) return null;
  const gpus = session.efficiency.gpus === 1 ? "GPU" : "GPUs";
  const since = `The session’s ${gpus} ${gpus === "GPU" ? "has" : "have"} been idle for ${duration(now() - idle.idle_since)}.`;
  if (!idle.warned) {
    const snoozed = idle.snoozed_until ? ` Snoozed until ${clock(idle.snoozed_until)}.` : "";
    return el("p.portal-quiet.idle", `${since}${snoozed}${idle.exempt ? ` ${idle.exempt}` : ""}`);
  }
  const then = idle.stops_at
    ? ` The session stops at ${clock(idle.stops_at)} unless the ${gpus} ${gpus === "GPU" ? "is" : "are"} used. Saved files are kept; data in memory is lost.`
    : " If you no longer need them, request fewer GPUs or stop the session.";
  return el(
    "div.alert.alert-warning.idle",
    el("p", since, then, session.efficiency.gpu_source === "simulated" ? [" ", el("span.badge.portal-simulated", "simulated")] : null),
    idle.snooze && (session.mine || may("jobs:manage"))
      ? button([`${idle.stops_at ? "Keep for" : "Remind me in"} ${duration(idle.snooze)}`, hidden(`${name}; ${count(idle.snoozes_left, "snooze")} left`)], () => snooze(session, onDone))
      : null,
  );
}

async function snooze(session, onDone) {
  await tell(async () => {
    const idle = await call(`sessions/${encodeURIComponent(session.id)}/snooze`, { method: "POST", body: {} });
    return `Snoozed until ${clock(idle.snoozed_until)}.`;
  });
  onDone();
}
