// Somebody saved, or changed the file, meanwhile: both texts and what differs, and the choice. What was
// typed here stays here until one says otherwise.

import { call } from "../api.js";
import { byId, el, fill } from "../dom.js";
import { lines } from "./diff.js";
import { at, origins, when } from "./words.js";

// Shows both. `mine`: the text that was refused; `choose(which, version)` gets "theirs", "mine" or
// "merge", and the newest version.
export async function conflict(name, mine, choose) {
  const place = byId("conflict");
  place.hidden = false;
  try {
    const { items } = await call(at(name, "versions"), { query: { limit: 1 } });
    const theirs = items[0];
    const { text } = await call(at(name, "versions", String(theirs.number), "text"));
    const { lines: changes } = await call("environment-comparison", { method: "POST", body: { old: text, new: mine } });
    const pick = (which) => () => {
      place.hidden = true;
      fill(place);
      choose(which, theirs);
    };
    fill(
      place,
      el(
        "div.alert.alert-warning.conflict",
        { role: "group", "aria-labelledby": "conflict-title" },
        el("h3", { id: "conflict-title" }, `Version ${theirs.number} is newer than what you began with`),
        el("p", {}, `${theirs.author} wrote it ${origins[theirs.origin] ?? ""} at `, when(theirs.at), theirs.comment ? `: “${theirs.comment}”.` : ".", " Nothing of yours is lost, and nothing was saved. Choose:"),
        el(
          "div.entry-actions",
          {},
          el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: pick("merge") }, "Merge by hand"),
          el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: pick("mine") }, "Save mine after it"),
          el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: pick("theirs") }, `Take version ${theirs.number}`),
        ),
      ),
      lines(changes, `From version ${theirs.number} to yours`),
      el(
        "div.side-by-side",
        {},
        side(`Version ${theirs.number}, by ${theirs.author}`, text),
        side("Yours", mine),
      ),
    );
  } catch (error) {
    fill(place, el("div.alert.alert-warning", { role: "alert" }, `Somebody saved a newer version meanwhile, and it cannot be shown: ${error.message} What you typed is still in the form.`));
  }
  place.focus();
  place.scrollIntoView({ block: "start" });
}

const side = (title, text) => el("section", { "aria-label": title }, el("h4", {}, title), el("pre.portal-log", { tabindex: "0", role: "region", "aria-label": `Text: ${title}` }, text));
