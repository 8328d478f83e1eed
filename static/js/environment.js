// One environment's page: packages are searched, the digest copied, what was measured is drawn.

import { byId, setText } from "./dom.js";
import { tell } from "./dialog.js";
import { stars } from "./favourites.js";
import { drawMeasured } from "./measured.js";
import { count } from "./words.js";

stars(byId("environment"));

const search = byId("packages-text");
if (search) {
  const packages = [...byId("packages").children];
  search.hidden = false;
  search.addEventListener("input", () => {
    const text = search.value.trim().toLowerCase();
    let fitting = 0;
    for (const one of packages) {
      one.hidden = Boolean(text) && !one.textContent.toLowerCase().includes(text);
      if (!one.hidden) fitting += 1;
    }
    setText(byId("packages-count"), text ? `${count(fitting, "package")} of ${packages.length}.` : "");
  });
}

// Browsers let pages copy only where they came through TLS or from this machine.
const copy = byId("copy-digest");
if (copy && navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", () =>
    tell(async () => {
      await navigator.clipboard.writeText(copy.dataset.text);
      return "The digest is copied.";
    }),
  );
}

const data = byId("measured-data");
if (data) drawMeasured(byId("measured-plot"), JSON.parse(data.textContent));
