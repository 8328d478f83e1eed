// One course: how it stands, what can be done with it, who is in it, its meetings, files and usage.

import { call, loginEnded } from "../api.js";
import { ask, tell, toast } from "../dialog.js";
import { byId, el, fill, setText } from "../dom.js";
import { clock, count } from "../words.js";
import { CourseEditor } from "./editor.js";
import { Files } from "./files.js";
import { meetings } from "./meetings.js";
import { People } from "./people.js";
import { showReadiness } from "./readiness.js";
import { showRoom } from "./room.js";
import { Starting } from "./starting.js";
import { usage } from "./usage.js";
import { at, coursePage } from "./words.js";

const facts = JSON.parse(byId("course-facts").textContent);
const { name } = facts.course.course;
let detail = { ...facts.course, may: [] };

const editor = new CourseEditor({ key: name, name, editing: facts.editing, fixed: ["name"], readOnly: !facts.changes, onState: () => states() });
const people = new People(name, facts.changes, () => ready());
const files = new Files(name, facts);
const starting = new Starting(name, byId("start"), () => {});

function states() {
  if (!facts.changes) return;
  byId("save-go").disabled = byId("save-not").disabled = !editor.changed;
  setText(byId("edit-words"), editor.changed ? "Changed, and not saved." : "");
}

// -- what can be done with it --------------------------------------------------------------------

const STEPS = {
  submit: { words: () => (facts.manages || facts.editing.creation === "free" ? "Open the course" : "Ask for approval"), look: "jupyter" },
  approve: { words: () => "Approve", look: "jupyter" },
  refuse: { words: () => "Refuse…", look: "outline-danger.portal-danger" },
  copy: { words: () => "Copy to another term…", look: "outline-contrast" },
  archive: { words: () => "Archive…", look: "outline-danger.portal-danger" },
};

function steps() {
  const may = detail.may.filter((one) => STEPS[one] && !(one === "approve" && detail.may.includes("submit")));
  fill(
    byId("steps"),
    Object.keys(STEPS)
      .filter((one) => may.includes(one))
      .map((one) => el(`button.btn.btn-sm.btn-${STEPS[one].look}`, { type: "button", onclick: () => step(one) }, STEPS[one].words())),
  );
  byId("rehearse").hidden = !facts.running;
}

async function step(verb) {
  if (editor.changed) {
    toast("Save what you changed first, or drop it.", true);
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
    copy();
    return;
  }
  const done = await tell(async () => {
    await call(at(name, verb), { method: "POST", body });
  });
  if (done) window.location.reload();
}

// The next term: a name and the first day, in a dialog of its own.
function copy() {
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

// -- saving --------------------------------------------------------------------------------------

async function load() {
  try {
    detail = await call(at(name));
    steps();
    files.show(detail.course);
  } catch (error) {
    if (!loginEnded(error)) trouble(error.message);
  }
}

const trouble = (message) => byId("troubles").append(el("div.alert.alert-warning.trouble", {}, message));

if (facts.changes) {
  byId("save").addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = byId("save-problem");
    setText(problem, "");
    try {
      if (!(await editor.validate())) {
        setText(problem, "Something is to be put right above; it says where.");
        document.querySelector("#editor-form [aria-invalid]")?.focus();
        return;
      }
      detail = await call(at(name), { method: "PUT", body: { course: editor.value, number: detail.number } });
      editor.done();
      editor.open(detail.course);
      states();
      steps();
      toast("The course is saved.");
      refresh();
    } catch (error) {
      if (error.status === 409) await conflict(error);
      else setText(problem, error.message);
    }
  });
  byId("save-not").addEventListener("click", () => {
    editor.draft.forget();
    editor.open(detail.course);
    states();
  });
}

// Somebody saved meanwhile: what differs, field by field, and the choice.
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
      detail = theirs;
      run();
      states();
    };
    fill(
      place,
      el(
        "div.alert.alert-warning.conflict",
        { role: "group", "aria-labelledby": "conflict-title" },
        el("h3", { id: "conflict-title" }, "Somebody else has saved this course meanwhile"),
        el("p", {}, `It was changed at ${clock(theirs.changed_at)}. Nothing of yours is lost, and nothing was saved. ${count(keys.length, "field differs", "fields differ")}:`),
        el(
          "dl.facts",
          {},
          keys.flatMap((key) => [el("dt", {}, key), el("dd", {}, el("div", {}, "yours: ", el("code", {}, text(mine[key]))), el("div", {}, "theirs: ", el("code", {}, text(theirs.course[key]))))]),
        ),
        el(
          "div.entry-actions",
          {},
          el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: choose(() => toast("Look at it, then save: yours will be put in the place of theirs.")) }, "Keep mine"),
          el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: choose(() => (editor.draft.forget(), editor.open(theirs.course))) }, "Take theirs"),
        ),
      ),
    );
  } catch {
    fill(place, el("div.alert.alert-warning", { role: "alert" }, `${error.message} What you typed is still in the form.`));
  }
  place.focus();
}

// Values that mean the same read the same: what is empty is left out by the form.
function text(value) {
  const bare = (one) =>
    one && typeof one === "object" && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).filter(([, inner]) => inner !== null && inner !== "" && inner !== 0 && inner !== false).sort())
      : one;
  const shown = bare(value);
  if (shown === undefined || shown === null || shown === "" || shown === 0 || shown === false) return "–";
  if (typeof shown === "object" && !Object.keys(shown).length) return "–";
  return typeof shown === "object" ? JSON.stringify(Array.isArray(shown) ? shown.map(bare) : shown) : String(shown);
}

// -- the parts -----------------------------------------------------------------------------------

async function ready() {
  const place = byId("readiness");
  try {
    showReadiness(place, byId("ready-words"), await call(at(name, "readiness")));
  } catch (error) {
    fill(place, el("p.portal-quiet", {}, error.message));
  }
  place.removeAttribute("aria-busy");
}

function refresh() {
  ready();
  meetings(name);
}

byId("rehearse").addEventListener("click", async () => {
  const number = await ask({
    title: "Rehearse a start",
    text: "So many sessions are started as for a meeting, looked at, and thrown away. Nobody’s own are touched.",
    action: "Rehearse",
    field: { label: "How many", required: true, value: String(Math.max(1, Math.min(30, people.students))), maxlength: 4 },
  });
  if (number === null) return;
  await tell(async () => {
    const start = await call(at(name, "starts"), { method: "POST", body: { kind: "rehearsal", number: Number(number) } });
    starting.follow(start.id);
    return "The rehearsal has begun.";
  });
});

const kept = editor.draft.value;
editor.open(detail.course);
states();
if (facts.changes && kept) {
  const note = el(
    "div.alert.alert-info.trouble",
    { role: "group", "aria-label": "What was not saved" },
    el("p", {}, `In this tab something was typed and not saved, last at ${clock(kept.at)}.`),
    el(
      "div.entry-actions",
      {},
      el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: () => (editor.edit(kept.course), note.remove()) }, "Put it back"),
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => (editor.draft.forget(), note.remove()) }, "Drop it"),
    ),
  );
  byId("troubles").append(note);
}
load();
people.load();
refresh();
usage(name);
if (byId("room-part")) showRoom(name, Boolean(facts.role));
starting.follow();
