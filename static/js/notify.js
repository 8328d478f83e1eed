// Browser notifications: turned on with a click, shown once across all tabs, and in the page itself if
// the browser blocks them. They need an open page: without one, a push service outside of the site would
// be necessary. The Hub's pages use this too (templates/assets/notices.js).

import { byId, el, setText } from "./dom.js";
import { stored } from "./stored.js";

const KEY = "portal-notices";
const TOLD = 50; // notifications that this browser remembers, so that each is shown once across its tabs
// Milliseconds: pages notice a start at different times; later than this, it is another start.
const SAME_START = 120000;

const can = () => typeof Notification === "function";
const allowed = () => can() && Notification.permission === "granted";

const kept = () => stored(KEY, {});
const keep = (changes) => localStorage.setItem(KEY, JSON.stringify({ ...kept(), ...changes }));

// Whether the user turned notifications on in this browser.
export const wanted = () => kept().on === true;

// Shows a notification once across all tabs. `key` identifies it; after `age` milliseconds the same key
// is a new one. Shown in the page and its title if the browser blocks it.
export function tell(key, title, body, url, age = Infinity) {
  const told = kept().told ?? [];
  // Another tab may have shown it before the clock was set back.
  if (!wanted() || told.some(([other, at]) => other === key && Math.abs(Date.now() - at) < age)) return;
  keep({ told: [...told, [key, Date.now()]].slice(-TOLD) });
  if (allowed()) {
    try {
      const notice = new Notification(title, { body, tag: key });
      notice.onclick = () => {
        window.focus();
        if (url) window.location.assign(url);
        notice.close();
      };
      return;
    } catch {
      // Browsers of phones support only notifications of a service worker.
    }
  }
  inPage(title, body, url);
}

// A server ("": the default server) is ready.
export function tellStarted(server, body, url) {
  tell(`started ${server}`, "Your session has started", body, url, SAME_START);
}

const usual = document.title;
function inPage(text, body, url) {
  document.title = `● ${text}`;
  const seen = () => {
    if (document.hidden) return;
    document.title = usual;
    document.removeEventListener("visibilitychange", seen);
  };
  document.addEventListener("visibilitychange", seen);
  byId("notices-told")?.append(
    el("p.alert.alert-info", el("strong", text), ` ${body} `, url ? el("a", { href: url }, "Open") : null),
  );
}

// Puts the button in `place`; `how` describes this page's notifications, `changed` is called after a choice.
export function mount(place, how, changed) {
  const button = el("button.btn.btn-sm.btn-outline-contrast", { type: "button", id: "notices-on", onclick: () => toggle(how, changed) });
  const words = el("p.portal-quiet", { id: "notices-words", role: "status" });
  place.replaceChildren(el("div", { id: "notices-told", role: "status" }), button, words, el("div", { id: "notices-more" }));
  place.hidden = false;
  say(how);
}

// Shows the button only while a session `waits`, or to turn notifications off.
export function offer(waits) {
  const button = byId("notices-on");
  if (button) button.hidden = !waits && !wanted();
}

// The text next to the button: `words`, or how the user is notified.
export function say(how, words = "") {
  const on = wanted();
  setText(byId("notices-on"), on ? "Turn off notifications in this browser" : "Notify me when it starts");
  byId("notices-on").setAttribute("aria-pressed", String(on));
  const refused = "This browser blocks notifications from this site. The page and its title notify you instead: keep the page open.";
  setText(byId("notices-words"), words || (on ? (allowed() ? how : refused) : ""));
}

async function toggle(how, changed) {
  if (wanted()) {
    keep({ on: false });
    say(how);
    return;
  }
  keep({ on: true });
  // Only on a click: browsers permanently block pages that ask on load.
  if (can() && Notification.permission === "default") await Notification.requestPermission();
  say(how);
  changed();
}
