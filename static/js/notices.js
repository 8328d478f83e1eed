// Notifications while a page of the service is open in any tab: a queued session has started, or a
// session ends soon; also about runs (run/notices.js), and the setting for mail.

import { call, facts, now } from "./api.js";
import { byId, el } from "./dom.js";
import { mount, offer, say, tell, tellStarted, wanted } from "./notify.js";
import { Poller } from "./poller.js";
import { lookAtRuns } from "./run/notices.js";
import { capital, duration } from "./words.js";

const EVERY = 15000;
const HOW =
  "While a page of the portal is open in any tab, this browser notifies you when a session has started and before it ends, and when a run ends or its first point fails.";

async function offerMail(place) {
  let settings;
  try {
    settings = await call("notices");
  } catch {
    return;
  }
  before = settings.before_end;
  if (!place || !settings.available) return;
  const box = el("input", { type: "checkbox", id: "notices-mail-box", checked: settings.mail });
  box.addEventListener("change", async () => {
    box.disabled = true;
    try {
      const { mail } = await call("notices", { method: "PUT", body: { mail: box.checked } });
      say(HOW, mail ? "You get mail when a queued session has started, and before a session ends." : "You get no mail.");
    } catch (error) {
      box.checked = !box.checked;
      say(HOW, error.message);
    }
    box.disabled = false;
  });
  byId("notices-more").replaceChildren(el("label.check", box, " Send me mail about my sessions"));
}

// -- watching -------------------------------------------------------------------------------------

let before = 900; // seconds before the end; the site's setting comes with the first answer
let waiting = null; // ids of the waiting sessions; null: not loaded yet

async function look() {
  if (!wanted()) return;
  const { items } = await call("sessions", { query: { user: facts.user, ended: "false", limit: 100 } });
  for (const session of items.filter((item) => item.mine)) watch(session);
  waiting = new Set(items.filter((item) => item.state !== "running").map((item) => item.id));
  await lookAtRuns();
}

function watch(session) {
  const name = [session.environment_title || session.environment, session.server].filter(Boolean).join(" ");
  if (session.state !== "running") return;
  if (waiting?.has(session.id)) {
    tellStarted(session.server, `${capital(name)} is ready.`, session.links.open);
  }
  const left = session.ends_at === null ? Infinity : session.ends_at - now();
  if (left > 0 && left <= before) {
    tell(`${session.id} ends ${Math.round(session.ends_at)}`, "Your session ends soon", `${capital(name)} ends in ${duration(left)}. Save your work.`, session.links.open);
  }
}

const place = byId("notices");
const poller = new Poller({ every: EVERY, ask: look, unseen: true });
if (place) {
  mount(place, HOW, () => poller.now());
  offer(false);
}
offerMail(place);
poller.now();
