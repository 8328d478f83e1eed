// What was typed in this tab and not saved: put it back, or drop it.

import { el } from "../dom.js";
import { clock } from "../words.js";

export function keptNote(editor, kept, done = () => {}) {
  const note = el(
    "div.alert.alert-info.trouble",
    { role: "group", "aria-label": "What was not saved" },
    el("p", {}, `In this tab something was typed and not saved, last at ${clock(kept.at)}.`),
    el(
      "div.entry-actions",
      {},
      el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: () => leave(() => editor.edit(kept)) }, "Put it back"),
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => leave(() => editor.draft.forget()) }, "Drop it"),
    ),
  );
  function leave(run) {
    run();
    note.remove();
    done();
  }
  return note;
}
