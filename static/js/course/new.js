// The form for a new course: checked while the user types, then saved as a draft.

import { call } from "../api.js";
import { put } from "../curate/fields.js";
import { keptNote } from "../curate/kept.js";
import { byId, fill } from "../dom.js";
import { sends } from "../forms.js";
import { CourseEditor } from "./editor.js";
import { coursePage } from "./words.js";

const { editing } = JSON.parse(byId("course-facts").textContent);
const editor = new CourseEditor({ key: "new", editing });
const today = new Date();
const day = (after) => new Date(today.getTime() + after * 86400000).toISOString().slice(0, 10);
let named = false; // whether the user has entered a name

const { element: title } = editor.form.inputs.get("title");
const { element: name } = editor.form.inputs.get("name");
name.addEventListener("input", () => (named = Boolean(name.value)));
title.addEventListener("input", () => {
  if (!named) name.value = proposed(title.value);
});

const LONGEST = 20; // characters of a name: portal/models/course/course.py

// "Deep Learning 101" is "deep-learning-101".
function proposed(text) {
  return text.normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+/, "").slice(0, LONGEST).replace(/-+$/, "");
}

sends(byId("make"), byId("make-problem"), async () => {
  await editor.demandValid();
  const made = await call("courses", { method: "POST", body: { course: editor.value } });
  editor.done();
  window.location.assign(coursePage(made.course.name, "/roster"));
});

const kept = editor.draft.value;
const course = {
  begins: day(7),
  ends: day(7 + 14 * 7),
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC",
};
for (const field of editor.form.fields) if ("usual" in field) put(course, field.name, field.usual);
editor.open(course);
if (kept) fill(byId("troubles"), keptNote(editor, kept));
