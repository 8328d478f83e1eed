// The catalog's tiles: search, tags and favourites. The page's URL keeps the search.

import { byId } from "./dom.js";
import { stars } from "./favourites.js";
import { keepInAddress } from "./filters.js";
import "./upcoming.js";

const FAVOURITE = "★";
const form = byId("find");

if (form) {
  const buttons = [...form.querySelectorAll(".portal-filter")];
  const asked = new URLSearchParams(window.location.search);
  const tags = (asked.get("tags") ?? "").split(",");
  byId("find-text").value = asked.get("text") ?? "";
  for (const button of buttons) button.setAttribute("aria-pressed", String(tags.includes(button.dataset.tag)));
  const look = window.portalFinder({
    cards: () => [...document.querySelectorAll("#tiles > .tile")],
    search: byId("find-text"),
    filters: buttons,
    count: byId("find-count"),
    all: byId("find-all"), // with the historical ones
    noun: "environment",
    go: "h3 a",
    onFound: ({ text, tags }) => keepInAddress({ text, tags: tags.join(",") }),
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  look();
  stars(byId("tiles"), (name, on) => {
    const tile = document.querySelector(`.tile[data-name="${CSS.escape(name)}"]`);
    const others = tile.dataset.tags.split("\n").filter((tag) => tag && tag !== FAVOURITE);
    tile.dataset.tags = [...others, ...(on ? [FAVOURITE] : [])].join("\n");
  });
}
