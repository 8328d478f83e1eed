// The form of a course. The API checks it while the user types; unsaved input is kept in this tab of the
// browser.

import { call } from "../api.js";
import { DefinitionForm } from "../curate/form.js";
import { byId, el, fill, later, setText } from "../dom.js";
import { Draft } from "../draft.js";
import { Wrong } from "../forms.js";
import { count } from "../words.js";
import { valueLists } from "../resource-fields.js";
import { courseGroups } from "./fields.js";
import { Term } from "./term.js";

const PAUSE = 350; // milliseconds since the last key

export class CourseEditor {
  // `key` names the draft in this tab, `name` the existing course; `onState({problems, changed})` is called after every check.
  constructor({ key, editing, name = undefined, fixed = [], readOnly = false, onState = (_) => {} }) {
    this.draft = new Draft(`portal-course ${key}`);
    this.onState = onState;
    this.asked = 0;
    this.saved = "";
    this.readOnly = readOnly;
    this.name = name;
    this.status = byId("editor-status");
    this.others = byId("editor-problems");
    const lists = { ...valueLists(editing.fields), "course-zones": editing.zones };
    this.form = new DefinitionForm(byId("editor-form"), { groups: courseGroups(editing), lists, fixed, readOnly, onChange: () => this.#typed() });
    this.term = new Term(byId("term"), byId("term-words"));
    this.check = later(() => this.validate(), PAUSE);
    if (!readOnly) window.addEventListener("beforeunload", (event) => this.changed && event.preventDefault());
  }

  get value() {
    return this.form.value;
  }

  get changed() {
    return JSON.stringify(this.value) !== this.saved;
  }

  // Shows the saved course.
  open(course) {
    this.form.value = course;
    this.saved = JSON.stringify(this.value);
    this.term.show(this.value);
    this.onState({ problems: [], changed: false });
  }

  // Shows an unsaved draft.
  edit({ course }) {
    this.form.value = course;
    this.#typed();
  }

  done() {
    this.draft.forget();
    this.saved = JSON.stringify(this.value);
  }

  // Asks the API to check the form; resolves to true if it can be saved.
  async validate() {
    this.check.cancel(); // a pending check would make this answer outdated
    this.asked += 1;
    const mine = this.asked;
    setText(this.status, "Checking…");
    try {
      const { problems } = await call("courses/validate", { method: "POST", body: { course: this.value, name: this.name } });
      if (mine !== this.asked) return false; // the user has typed since
      this.#show(problems);
      return !problems.some((problem) => !problem.hint);
    } catch (error) {
      if (mine !== this.asked) return false;
      setText(this.status, error.message);
      return false;
    }
  }

  // Throws an error unless it can be saved.
  async demandValid() {
    if (!(await this.validate())) throw new Wrong("Fix the marked fields.", document.querySelector("#editor-form [aria-invalid]"));
  }

  #typed() {
    this.term.show(this.value);
    if (this.changed) this.draft.keep({ course: this.value });
    else this.draft.forget();
    this.check();
  }

  #show(problems) {
    const others = this.form.show(problems);
    fill(this.others, others.map(({ field, message }) => el("li", field && !message.includes(field) ? `${field}: ${message}` : message)));
    const wrong = problems.filter((problem) => !problem.hint).length;
    setText(this.status, wrong ? `${count(wrong, "problem")} to fix.` : this.changed ? "No problems. Not saved yet." : "No problems.");
    this.onState({ problems, changed: this.changed });
  }
}
