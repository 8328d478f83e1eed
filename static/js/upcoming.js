// Progress of the environments that are built or tested for the first time.

import { call } from "./api.js";
import { byId, el, setText } from "./dom.js";
import { Poller } from "./poller.js";

const EVERY = 3000; // milliseconds
const section = byId("upcoming");

if (section) {
  const poller = new Poller({ every: EVERY, ask: refresh, onTrouble: () => {} });
  poller.in(EVERY);

  async function refresh() {
    const { items } = await call("upcoming-environments");
    const known = new Map(items.map((item) => [item.name, item]));
    for (const entry of section.querySelectorAll("[data-upcoming]")) {
      const item = known.get(entry.dataset.upcoming);
      if (item) {
        entry.querySelector("progress").value = item.share;
        setText(entry.querySelector(".upcoming-step"), item.step);
      } else finish(entry);
    }
    return items.length ? undefined : null;
  }

  // The tile, or the reason why there is none, is the page's.
  function finish(entry) {
    entry.querySelector("progress")?.remove();
    entry.querySelector(".upcoming-step").replaceChildren("finished. ", el("a", { href: window.location.href }, "Reload the page"));
    entry.removeAttribute("data-upcoming");
  }
}
