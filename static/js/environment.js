// An environment's page: search packages, copy the digest, draw the measurements.

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
    let matches = 0;
    for (const item of packages) {
      item.hidden = Boolean(text) && !item.textContent.toLowerCase().includes(text);
      if (!item.hidden) matches += 1;
    }
    setText(byId("packages-count"), text ? `${count(matches, "package")} of ${packages.length}.` : "");
  });
}

// Browsers allow pages to copy only over TLS or from localhost.
const copy = byId("copy-digest");
if (copy && navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", () =>
    tell(async () => {
      await navigator.clipboard.writeText(copy.dataset.text);
      return "Digest copied.";
    }),
  );
}

const data = byId("measured-data");
if (data) drawMeasured(byId("measured-plot"), JSON.parse(data.textContent));
