// A link to a course's session that asks for the session before it goes there.

import { call } from "../api.js";
import { toast } from "../dialog.js";
import { setText } from "../dom.js";
import { at } from "./words.js";

// `words` is the element that says how it goes; `body` what the course is asked with.
export function openOnClick(link, course, words, body) {
  link.addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.getAttribute("aria-disabled")) return;
    link.setAttribute("aria-disabled", "true");
    setText(words, "Requesting your session…");
    try {
      await call(at(course, "open"), { method: "POST", body });
      window.location.assign(link.href);
    } catch (error) {
      setText(words, error.message);
      toast(error.message, true);
    }
    link.removeAttribute("aria-disabled");
  });
}
