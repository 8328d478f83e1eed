// Active announcements, at the top of the page.

import { call } from "./api.js";
import { byId, el } from "./dom.js";
import { Poller } from "./poller.js";
import { clock } from "./words.js";

const EVERY = 120000;

async function show() {
  const place = byId("announcements");
  const { items } = await call("announcements", { query: { active: "true", limit: 20 } });
  const shown = items.map((item) => item.id).join();
  if (place.dataset.shown === shown) return;
  place.dataset.shown = shown;
  place.replaceChildren(...items.map(banner));
}

function banner(item) {
  const warns = item.level === "warning";
  return el(
    `div.alert.${warns ? "alert-warning" : "alert-info"}`,
    el("p", el("strong", warns ? "Warning:" : "Notice:"), ` ${item.text}`, el("span.banner-until", ` Until ${clock(item.ends_at)}.`)),
  );
}

// Failed requests show nothing; the page itself reports what does not answer.
new Poller({ every: EVERY, ask: show }).now();
