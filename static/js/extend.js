// More time for a running session: what is possible is asked when somebody wants it.

import { call, may } from "./api.js";
import { ask, tell, toast } from "./dialog.js";
import { el, hidden } from "./dom.js";
import { clock, duration } from "./words.js";

/** @type {(session: any) => `sessions/${string}`} */
const path = (session) => `sessions/${encodeURIComponent(session.id)}`;

// The button; null where there is nothing to extend. `name` says of what, for those who hear it.
export function extendButton(session, name, onDone) {
  if (session.state !== "running" || session.time_left === null) return null;
  if (!session.mine && !may("jobs:manage")) return null;
  return el(
    "button.btn.btn-sm.btn-outline-contrast",
    { type: "button", onclick: () => extend(session, onDone) },
    "Extend…",
    hidden(name),
  );
}

// Asks by how much, and does it.
export async function extend(session, onDone) {
  let fresh;
  try {
    fresh = await call(path(session), { query: { log: "false" } });
  } catch (error) {
    toast(error.message, true);
    return;
  }
  const { extend: offer, time_left: left, ends_at: end } = fresh;
  if (!offer?.allowed) {
    toast(offer?.reason || "This session does not run.", true);
    return;
  }
  const latest = offer.latest_end === null ? "" : ` It can go on until ${clock(offer.latest_end)} at the latest.`;
  const minutes = await ask({
    title: "Extend this session?",
    text: `${duration(left)} are left.${latest}`,
    action: "Extend",
    field: {
      label: "By how much",
      choices: offer.minutes.map((one) => [String(one), duration(60 * one)]),
    },
  });
  if (minutes === null) return;
  await tell(async () => {
    const body = { minutes: Number(minutes), ends_at: end };
    const done = await call(`${path(session)}/extend`, { method: "POST", body });
    return `The session’s time is up at ${clock(done.ends_at)} now.`;
  });
  onDone();
}
