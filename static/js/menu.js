// "⋯": the actions of a view or an entry besides its main one. Bootstrap opens the menu and moves the focus in it.

import { el, hidden, icon } from "./dom.js";

// A menu of links and buttons; null if there are none. `of` names what they act on, for screen readers.
export function menu(of, ...items) {
  const there = items.filter(Boolean);
  if (!there.length) return null;
  for (const item of there) item.className = item.matches(".portal-danger") ? "dropdown-item portal-danger" : "dropdown-item";
  return el(
    "div.dropdown.more",
    el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "data-bs-toggle": "dropdown", "aria-expanded": "false" }, icon("ellipsis"), hidden(`More actions for ${of}`)),
    el("ul.dropdown-menu.dropdown-menu-end", there.map((item) => el("li", item))),
  );
}
