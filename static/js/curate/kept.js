// Unsaved changes of this tab: restore or discard them.

import { el } from "../dom.js";
import { clock } from "../words.js";

// `draft`: the value of `editor.draft`; `done()` is called after it is restored or discarded.
export function keptNote(editor, draft, done = () => {}) {
  const leave = (run) => () => {
    run();
    note.remove();
    done();
  };
  const note = el(
    "div.alert.alert-info.trouble",
    { role: "group", "aria-label": "Unsaved changes" },
    el("p", `This tab has unsaved changes from ${clock(draft.at)}.`),
    el(
      "div.entry-actions",
      el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: leave(() => editor.edit(draft)) }, "Restore"),
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: leave(() => editor.draft.forget()) }, "Discard"),
    ),
  );
  return note;
}
