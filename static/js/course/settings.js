// The settings of a course: edited, checked while the user types, and saved. Changes that another user
// saved meanwhile are shown field by field.

import { call } from "../api.js";
import { keptNote } from "../curate/kept.js";
import { toast } from "../dialog.js";
import { byId, el, fill, setText } from "../dom.js";
import { sends } from "../forms.js";
import { clock, count } from "../words.js";
import { facts, kept, keep, name } from "./course.js";
import { CourseEditor } from "./editor.js";
import { at } from "./words.js";

const editor = new CourseEditor({ key: name, name, editing: facts.editing, fixed: ["name"], readOnly: !facts.changes, onState: () => states() });

function states() {
  if (!facts.changes) return;
  byId("save-go").disabled = byId("save-not").disabled = !editor.changed;
  setText(byId("edit-words"), editor.changed ? "Unsaved changes." : "");
}

if (facts.changes) {
  const save = async () => {
    await editor.demandValid();
    try {
      keep(await call(at(name), { method: "PUT", body: { course: editor.value, number: kept().number } }));
    } catch (error) {
      if (error.status !== 409) throw error;
      await conflict(error);
      return;
    }
    editor.done();
    editor.open(kept().course);
    toast("Course saved.");
  };
  sends(byId("save"), byId("save-problem"), save, { button: byId("save-go"), settled: states });
  byId("save-not").addEventListener("click", () => {
    editor.draft.forget();
    editor.open(kept().course);
    states();
  });
}

// Another user saved meanwhile: shows the differences, field by field, and the choice.
async function conflict(error) {
  const place = byId("conflict");
  place.hidden = false;
  try {
    const theirs = await call(at(name));
    const mine = editor.value;
    const keys = [...new Set([...Object.keys(mine), ...Object.keys(theirs.course)])].filter((key) => text(mine[key]) !== text(theirs.course[key]));
    const choose = (run) => () => {
      place.hidden = true;
      fill(place);
      keep(theirs);
      run();
      states();
    };
    fill(
      place,
      el(
        "div.alert.alert-warning.conflict",
        { role: "group", "aria-labelledby": "conflict-title" },
        el("h3", { id: "conflict-title" }, "Another user has saved this course"),
        el("p", `They saved it at ${clock(theirs.changed_at)}. Your changes are not saved, but they are still in the form. ${count(keys.length, "field differs", "fields differ")}:`),
        el(
          "dl.facts",
          keys.flatMap((key) => [el("dt", key), el("dd", el("div", "yours: ", el("code", text(mine[key]))), el("div", "theirs: ", el("code", text(theirs.course[key]))))]),
        ),
        el(
          "div.entry-actions",
          el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: choose(() => toast("Check the form, then save: your values replace theirs.")) }, "Keep mine"),
          el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: choose(() => (editor.draft.forget(), editor.open(theirs.course))) }, "Use theirs"),
        ),
      ),
    );
  } catch {
    fill(place, el("div.alert.alert-warning", { role: "alert" }, `${error.message} Your input is still in the form.`));
  }
  place.focus();
}

// A value as text; values that mean the same give the same text. The form leaves out empty values.
function text(value) {
  const bare = (item) =>
    item && typeof item === "object" && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).filter(([, inner]) => inner !== null && inner !== "" && inner !== 0 && inner !== false).sort())
      : item;
  const shown = bare(value);
  if (shown === undefined || shown === null || shown === "" || shown === 0 || shown === false) return "–";
  if (typeof shown === "object" && !Object.keys(shown).length) return "–";
  return typeof shown === "object" ? JSON.stringify(Array.isArray(shown) ? shown.map(bare) : shown) : String(shown);
}

const draft = editor.draft.value;
editor.open(kept().course);
states();
if (facts.changes && draft) byId("troubles").append(keptNote(editor, draft));
