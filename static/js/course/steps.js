// What can be done with a course: opened, approved, refused, copied, archived. The buttons stand on all
// of its tabs.

import { call } from "../api.js";
import { ask, tell, toast } from "../dialog.js";
import { byId, el, fill, setText } from "../dom.js";
import { Draft } from "../draft.js";
import { at, coursePage } from "./words.js";

const STEPS = {
  submit: { words: (facts) => (facts.manages || facts.editing.creation === "free" ? "Open the course" : "Ask for approval"), look: "jupyter" },
  approve: { words: () => "Approve", look: "jupyter" },
  refuse: { words: () => "Refuse…", look: "outline-danger.portal-danger" },
  copy: { words: () => "Copy to another term…", look: "outline-contrast" },
  archive: { words: () => "Archive…", look: "outline-danger.portal-danger" },
};

// Shows the buttons of what `detail.may` names.
export function showSteps(facts, detail) {
  const may = detail.may.filter((verb) => STEPS[verb] && !(verb === "approve" && detail.may.includes("submit")));
  fill(
    byId("steps"),
    Object.keys(STEPS)
      .filter((verb) => may.includes(verb))
      .map((verb) => el(`button.btn.btn-sm.btn-${STEPS[verb].look}`, { type: "button", onclick: () => step(verb, detail) }, STEPS[verb].words(facts))),
  );
}

// What was typed in the settings of a course and not saved, in this tab of the browser.
export const draftOf = (name) => new Draft(`portal-course ${name}`);

async function step(verb, detail) {
  const { name } = detail.course;
  if (draftOf(name).value) {
    toast("The settings have unsaved changes. Save or discard them first.", true);
    return;
  }
  const body = { number: detail.number };
  if (verb === "refuse") {
    const answer = await ask({ title: "Refuse this course?", text: "Its instructor reads why, changes it and asks again.", action: "Refuse", danger: true, field: { label: "Why", required: true, rows: 3, maxlength: 2000 } });
    if (!answer) return;
    body.answer = answer;
  }
  if (verb === "archive") {
    const sure = await ask({ title: "Archive this course?", text: "Its sessions end, its reservations and shares are removed. Everybody’s work stays. It can be copied to another term.", action: "Archive", danger: true });
    if (sure === null) return;
  }
  if (verb === "copy") {
    copy(detail);
    return;
  }
  const done = await tell(async () => {
    await call(at(name, verb), { method: "POST", body });
  });
  if (done) window.location.reload();
}

// The next term: a name and the first day, in a dialog of its own.
function copy(detail) {
  const { name } = detail.course;
  const begins = el("input.form-control", { id: "copy-begins", type: "date", required: true });
  const made = el("input.form-control", { id: "copy-name", required: true, maxlength: 20, autocomplete: "off", spellcheck: "false", pattern: "[a-z0-9]+(-[a-z0-9]+)*" });
  const students = el("input", { id: "copy-students", type: "checkbox" });
  const problem = el("p.form-problem", { role: "alert" });
  made.value = `${name.slice(0, 18).replace(/-$/, "")}-2`;
  const later = new Date(Date.parse(detail.course.begins) + 26 * 7 * 86400000);
  begins.value = later.toISOString().slice(0, 10);
  const dialog = el(
    "dialog.ask",
    { "aria-labelledby": "copy-title" },
    el(
      "form",
      { method: "dialog" },
      el("h2", { id: "copy-title" }, "Copy to another term"),
      el("p", {}, "A draft with the same staff and settings. All dates move with the first day; holidays are left out."),
      el("label.form-label", { for: "copy-name" }, "Name of the new course"),
      made,
      el("label.form-label", { for: "copy-begins" }, "First day"),
      begins,
      el("label.check", { for: "copy-students" }, students, " Take the list of students along"),
      problem,
      el("div.ask-buttons", {}, el("button.btn.btn-outline-contrast", { type: "button", onclick: () => dialog.close() }, "Back"), el("button.btn.btn-jupyter", {}, "Copy")),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const answer = await call(at(name, "copy"), { method: "POST", body: { name: made.value.trim(), begins: begins.value, students: students.checked } });
      window.location.assign(coursePage(answer.course.name));
    } catch (error) {
      setText(problem, error.message);
    }
  });
  byId("board").append(dialog);
  dialog.showModal();
  made.focus();
}
