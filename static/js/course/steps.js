// The steps in a course's life cycle: request, approve, refuse, copy, archive. All tabs show the
// buttons.

import { call } from "../api.js";
import { ask, tell, toast } from "../dialog.js";
import { byId, el, fill } from "../dom.js";
import { Draft } from "../draft.js";
import { openForm } from "../forms.js";
import { at, coursePage } from "./words.js";

const STEPS = {
  submit: { words: (facts) => (facts.manages || facts.editing.creation === "free" ? "Activate course" : "Request approval"), main: true },
  approve: { words: () => "Approve", main: true },
  refuse: { words: () => "Refuse…", danger: true },
  copy: { words: () => "Copy to another term…" },
  archive: { words: () => "Archive…", danger: true },
};

// The question before a refusal, without its title.
export const REFUSAL = {
  text: "The instructor sees your reason, and can change the course and request approval again.",
  action: "Refuse",
  danger: true,
  field: { label: "Reason", required: true, rows: 3, maxlength: 2000 },
};

// Shows the steps in `detail.may`: the main one as a button, the others in the menu.
export function showSteps(facts, detail) {
  const may = detail.may.filter((verb) => STEPS[verb] && !(verb === "approve" && detail.may.includes("submit")));
  const button = (verb, look) => el(`button${look}`, { type: "button", onclick: () => step(verb, detail) }, STEPS[verb].words(facts));
  const verbs = Object.keys(STEPS).filter((verb) => may.includes(verb));
  fill(byId("steps"), verbs.filter((verb) => STEPS[verb].main).map((verb) => button(verb, ".btn.btn-sm.btn-jupyter")));
  const menu = document.querySelector(".page-actions .dropdown-menu");
  for (const old of menu.querySelectorAll("[data-step]")) old.remove();
  for (const verb of verbs.filter((other) => !STEPS[other].main)) {
    menu.append(el("li", { dataset: { step: verb } }, button(verb, `.dropdown-item${STEPS[verb].danger ? ".portal-danger" : ""}`)));
  }
}

// The unsaved settings of a course in this tab of the browser.
export const draftOf = (name) => new Draft(`portal-course ${name}`);

async function step(verb, detail) {
  const { name } = detail.course;
  if (draftOf(name).value) {
    toast("The settings have unsaved changes. Save or discard them first.", true);
    return;
  }
  const body = { number: detail.number };
  if (verb === "refuse") {
    const answer = await ask({ title: "Refuse this course?", ...REFUSAL });
    if (!answer) return;
    body.answer = answer;
  }
  if (verb === "archive") {
    const sure = await ask({ title: "Archive this course?", text: "Its sessions are stopped; its reservations and shares are removed. Files stay. You can copy the course to another term.", action: "Archive", danger: true });
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

// Asks for the name and the first day of the copy in a dialog.
function copy(detail) {
  const { name } = detail.course;
  const later = new Date(Date.parse(detail.course.begins) + 26 * 7 * 86400000);
  const begins = el("input.form-control", { id: "copy-begins", type: "date", value: later.toISOString().slice(0, 10), required: true });
  const made = el("input.form-control", { id: "copy-name", value: `${name.slice(0, 18).replace(/-$/, "")}-2`, required: true, maxlength: 20, autocomplete: "off", spellcheck: "false", pattern: "[a-z0-9]+(-[a-z0-9]+)*" });
  const students = el("input", { id: "copy-students", type: "checkbox" });
  openForm({
    id: "copy",
    title: "Copy to another term",
    text: "Creates a draft with the same staff and settings. All dates move with the first day; holidays are left out.",
    content: [
      el("label.form-label", { for: "copy-name" }, "Name of the new course"),
      made,
      el("label.form-label", { for: "copy-begins" }, "First day"),
      begins,
      el("label.check", { for: "copy-students" }, students, " Copy the list of students"),
    ],
    action: "Copy course",
    first: made,
    send: async () => {
      const answer = await call(at(name, "copy"), { method: "POST", body: { name: made.value.trim(), begins: begins.value, students: students.checked } });
      window.location.assign(coursePage(answer.course.name));
    },
  });
}
