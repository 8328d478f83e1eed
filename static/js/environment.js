// An environment's page: search packages, copy the digest, draw the measurements.

import { copies } from "./copy.js";
import { byId, setText } from "./dom.js";
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

const copy = byId("copy-digest");
if (copy) copies(copy, copy.dataset.text, "Digest copied.");

const data = byId("measured-data");
if (data) drawMeasured(byId("measured-plot"), JSON.parse(data.textContent));
