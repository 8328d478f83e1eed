// Notices of the browser: asked for with a click, shown once in all tabs, and on the page itself where
// the browser shows none. Nothing reaches a browser without an open page: that would take a push
// service outside of the site. The Hub's pages use this too (templates/assets/notices.js).

import { byId, el, setText } from "./dom.js";

const KEY = "portal-notices";
const TOLD = 50; // notices that this browser remembers, so that each is shown once in all its tabs
// Pages learn of a start at different moments; after this, the same server started once more.
const SAME_START = 120000;

const can = () => typeof Notification === "function";
const allowed = () => can() && Notification.permission === "granted";

function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}");
  } catch {
    return {};
  }
}
const keep = (changes) => localStorage.setItem(KEY, JSON.stringify({ ...stored(), ...changes }));

// Whether this person asked for notices in this browser.
export const wanted = () => stored().on === true;

// Shows one notice, once in all tabs; `key` names it, and is another one after `age` milliseconds. In
// the page and its title where the browser shows none.
export function tell(key, title, body, url, age = Infinity) {
  const told = stored().told ?? [];
  // Another tab may have told it before the clock was set back.
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
      // Browsers of phones have only notices of a service worker.
    }
  }
  inPage(title, body, url);
}

// A server ("" is the default one) answers now.
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
    el("p.alert.alert-info", {}, el("strong", {}, text), ` ${body} `, url ? el("a", { href: url }, "Open it") : null),
  );
}

// The button in `place`; `how` says what is told from this page, `changed` is called after a choice.
export function mount(place, how, changed) {
  const button = el("button.btn.btn-sm.btn-outline-contrast", { type: "button", id: "notices-on", onclick: () => toggle(how, changed) });
  const words = el("p.portal-quiet", { id: "notices-words", role: "status" });
  place.replaceChildren(el("div", { id: "notices-told", role: "status" }), button, words, el("div", { id: "notices-more" }));
  place.hidden = false;
  say(how);
}

// Shows the button only while a session `waits`, or to turn notices off.
export function offer(waits) {
  const button = byId("notices-on");
  if (button) button.hidden = !waits && !wanted();
}

// What stands beside the button: `words`, or else how one is told.
export function say(how, words = "") {
  const on = wanted();
  setText(byId("notices-on"), on ? "Turn off notifications in this browser" : "Notify me when it starts");
  byId("notices-on").setAttribute("aria-pressed", String(on));
  const refused = "This browser shows no notices for this site, so the page and its title tell you; keep it open.";
  setText(byId("notices-words"), words || (on ? (allowed() ? how : refused) : ""));
}

async function toggle(how, changed) {
  if (wanted()) {
    keep({ on: false });
    say(how);
    return;
  }
  keep({ on: true });
  // Only on a click, and only now: a page that asks at once is refused for good.
  if (can() && Notification.permission === "default") await Notification.requestPermission();
  say(how);
  changed();
}
