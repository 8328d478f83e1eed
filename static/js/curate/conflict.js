// A newer version was saved, or the file changed: show both texts, their differences and the choices.
// The user's own text is kept until they choose.

import { call } from "../api.js";
import { byId, el, fill } from "../dom.js";
import { lines } from "./diff.js";
import { at, origins, when } from "./words.js";

// Shows both texts. `mine`: the text that was refused; calls `choose(which, version)` with "theirs",
// "mine" or "merge", and the newest version.
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
        el("h3", { id: "conflict-title" }, `Version ${theirs.number} is newer than the version that you edited`),
        el("p", `Saved by ${theirs.author} (${origins[theirs.origin] ?? theirs.origin}) at `, when(theirs.at), theirs.comment ? `: “${theirs.comment}”.` : ".", " Your text is not saved yet, but it is not lost. Choose:"),
        el(
          "div.entry-actions",
          el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: pick("merge") }, "Merge by hand"),
          el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: pick("mine") }, "Save mine as the newest version"),
          el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: pick("theirs") }, `Use version ${theirs.number}`),
        ),
      ),
      lines(changes, `Changes from version ${theirs.number} to your version`),
      el(
        "div.side-by-side",
        side(`Version ${theirs.number}, by ${theirs.author}`, text),
        side("Your version", mine),
      ),
    );
  } catch (error) {
    fill(place, el("div.alert.alert-warning", { role: "alert" }, `A newer version was saved, but it cannot be shown: ${error.message} Your changes are still in the form.`));
  }
  place.focus();
  place.scrollIntoView({ block: "start" });
}

const side = (title, text) => el("section", { "aria-label": title }, el("h4", title), el("pre.portal-log", { tabindex: "0", role: "region", "aria-label": `Text: ${title}` }, text));
