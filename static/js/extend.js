// More time for a running session; the possible extensions are requested on demand.

import { call, may } from "./api.js";
import { answered, ask, tell, toast } from "./dialog.js";
import { button, hidden } from "./dom.js";
import { clock, duration } from "./words.js";

/** @type {(session: any) => `sessions/${string}`} */
const path = (session) => `sessions/${encodeURIComponent(session.id)}`;

// The button; null if nothing can be extended. `name` is added for screen readers.
export function extendButton(session, name, onDone) {
  if (session.state !== "running" || session.time_left === null) return null;
  if (!session.mine && !may("jobs:manage")) return null;
  return button(["Extend…", hidden(name)], () => extend(session, onDone));
}

// Asks for the extension and makes it.
export async function extend(session, onDone) {
  const fresh = await answered(call(path(session), { query: { log: "false" } }));
  if (!fresh) return;
  const { extend: offer, time_left: left, ends_at: end } = fresh;
  if (!offer?.allowed) {
    toast(offer?.reason || "This session is not running.", true);
    return;
  }
  const latest = offer.latest_end === null ? "" : ` The latest possible end is ${clock(offer.latest_end)}.`;
  const minutes = await ask({
    title: "Extend this session?",
    text: `${duration(left)} left.${latest}`,
    action: "Extend",
    field: { label: "Extend by", choices: offer.minutes.map((choice) => [String(choice), duration(60 * choice)]) },
  });
  if (minutes === null) return;
  await tell(async () => {
    const body = { minutes: Number(minutes), ends_at: end };
    const done = await call(`${path(session)}/extend`, { method: "POST", body });
    return `The session now ends at ${clock(done.ends_at)}.`;
  });
  onDone();
}
