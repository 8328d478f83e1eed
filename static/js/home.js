// Home: renews the parts that have changed, and requests a session before the browser follows its link.

import { ApiError, call, facts } from "./api.js";
import { tell } from "./dialog.js";
import { announce, byId, setText, showTrouble } from "./dom.js";
import { Poller } from "./poller.js";
import { clock } from "./words.js";

const EVERY = 20000;
const SOON = 500; // after a page with parts that were late
const place = byId("home");
const shown = new Map(); // the HTML of each part, as the service made it
const poller = new Poller({ every: EVERY, ask: renew, onTrouble: showTrouble });

async function renew() {
  if (document.querySelector("dialog[open]")) return;
  // Hub logins accept a script's request only with the page's token.
  const headers = { "X-XSRFToken": facts.xsrf };
  const response = await fetch(`${facts.prefix}home?update=1`, { redirect: "manual", headers }).catch(() => null);
  if (response?.type === "opaqueredirect") throw new ApiError("Your login has expired.", 403, "not_logged_in");
  const parsed = new DOMParser().parseFromString((await response?.text()) ?? "", "text/html");
  const home = parsed.getElementById("home");
  if (!home) throw new ApiError("The portal does not answer. Retrying…");
  showTrouble(null);
  for (const [at, column] of [...home.children].entries()) show(place.children[at], [...column.children]);
  drawn();
}

// Shows these parts in a column; those that are the same stay as they are.
function show(column, parts) {
  const ids = parts.map((part) => part.id);
  for (const part of [...column.children]) if (!ids.includes(part.id)) part.remove();
  for (const [at, part] of parts.entries()) {
    const before = byId(part.id);
    if (before && shown.get(part.id) === part.outerHTML) continue;
    shown.set(part.id, part.outerHTML);
    const focused = before?.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    if (before) before.replaceWith(part);
    else column.insertBefore(part, column.children[at] ?? null);
    if (focused) /** @type {HTMLElement | null} */ (part.querySelector(`[href="${CSS.escape(focused)}"]`))?.focus();
  }
}

// Writes times as this browser's clock has them.
function drawn() {
  for (const time of place.querySelectorAll("time[data-at]")) setText(time, clock(Number(time.dataset.at)));
}

place.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-post]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (link.getAttribute("aria-disabled")) return;
  link.setAttribute("aria-disabled", "true");
  announce("Requesting your session…");
  await tell(async () => {
    await call(link.dataset.post, { method: "POST", body: {} });
    window.location.assign(link.href);
  });
  link.removeAttribute("aria-disabled");
});

for (const part of place.querySelectorAll(".part")) shown.set(part.id, part.outerHTML);
drawn();
poller.in(place.querySelector("[aria-busy]") ? SOON : EVERY);
