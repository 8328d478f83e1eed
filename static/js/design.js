// The same components as scripts make them: the test compares them with those of the templates.

import { facts } from "./api.js";
import { byId, el, empty, trouble } from "./dom.js";
import { menu } from "./menu.js";
import { pill } from "./status.js";

for (const swatch of document.querySelectorAll("[data-colour]")) swatch.style.background = `var(--portal-${swatch.dataset.colour})`;
for (const level of document.querySelectorAll("[data-share]")) level.style.width = level.dataset.share;

const action = (words) => el("a", { href: "#portal-main" }, words);
const made = {
  ...Object.fromEntries(Object.keys(facts.states).map((state) => [`state-${state}`, pill(state)])),
  empty: empty("You have no runs yet.", action("Start a run")),
  failed: trouble("The portal’s service does not answer.", action("Reload the page")),
  menu: menu("the example", el("a", { href: "#portal-main" }, "Repeat"), el("button.portal-danger", { type: "button" }, "Delete…")),
};
byId("made").append(...Object.entries(made).map(([name, element]) => el("div", { dataset: { made: name } }, element)));
