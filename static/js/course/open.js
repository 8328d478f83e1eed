// A link to a course's session that requests the session before the browser follows the link.

import { call } from "../api.js";
import { toast } from "../dialog.js";
import { setText } from "../dom.js";
import { at } from "./words.js";

// `words` is the element for the progress; `body` is the body of the request.
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
