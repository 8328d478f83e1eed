// The form of a course, checked by the API while one types; what was typed and not saved stays in the
// tab until it is.

import { call } from "../api.js";
import { DefinitionForm } from "../curate/form.js";
import { byId, el, fill, later, setText } from "../dom.js";
import { Draft } from "../draft.js";
import { count } from "../words.js";
import { courseGroups } from "./fields.js";
import { Term } from "./term.js";

const PAUSE = 350; // milliseconds without a key

export class CourseEditor {
  // `key` names what is kept in this tab, `name` the course that is there already; `onState({problems, changed})` hears every check.
  constructor({ key, editing, name = undefined, fixed = [], readOnly = false, onState = (_) => {} }) {
    this.draft = new Draft(`portal-course ${key}`);
    this.onState = onState;
    this.asked = 0;
    this.saved = "";
    this.readOnly = readOnly;
    this.name = name;
    this.status = byId("editor-status");
    this.others = byId("editor-problems");
    this.form = new DefinitionForm(byId("editor-form"), { groups: courseGroups(editing), fixed, readOnly, onChange: () => this.#typed() });
    this.term = new Term(byId("term"), byId("term-words"));
    lists({ "course-gpu-types": editing.gpu_types, "course-partitions": editing.partitions, "course-zones": editing.zones });
    this.check = later(() => this.validate(), PAUSE);
    if (!readOnly) window.addEventListener("beforeunload", (event) => this.changed && event.preventDefault());
  }

  get value() {
    return this.form.value;
  }

  get changed() {
    return JSON.stringify(this.value) !== this.saved;
  }

  // Shows what is saved now.
  open(course) {
    this.form.value = course;
    this.saved = JSON.stringify(this.value);
    this.term.show(this.value);
    this.onState({ problems: [], changed: false });
  }

  // Shows what is not saved.
  edit({ course }) {
    this.form.value = course;
    this.#typed();
  }

  done() {
    this.draft.forget();
    this.saved = JSON.stringify(this.value);
  }

  // Asks the API; whether it could be saved so.
  async validate() {
    this.check.cancel(); // or what was typed before would be asked again, and this answer be an old one
    this.asked += 1;
    const mine = this.asked;
    setText(this.status, "Checking…");
    try {
      const { problems } = await call("courses/validate", { method: "POST", body: { course: this.value, name: this.name } });
      if (mine !== this.asked) return false; // somebody has typed since
      this.#show(problems);
      return !problems.some((one) => !one.hint);
    } catch (error) {
      if (mine !== this.asked) return false;
      setText(this.status, error.message);
      return false;
    }
  }

  #typed() {
    this.term.show(this.value);
    if (this.changed) this.draft.keep({ course: this.value });
    else this.draft.forget();
    this.check();
  }

  #show(problems) {
    const others = this.form.show(problems);
    fill(this.others, others.map(({ field, message }) => el("li", {}, field && !message.includes(field) ? `${field}: ${message}` : message)));
    const wrong = problems.filter((one) => !one.hint).length;
    setText(this.status, wrong ? `${count(wrong, "thing is", "things are")} to be put right.` : this.changed ? "Nothing is wrong. Not saved yet." : "Nothing is wrong.");
    this.onState({ problems, changed: this.changed });
  }
}

// What the fields of the form offer while one types.
function lists(offers) {
  for (const [id, values] of Object.entries(offers)) {
    byId("editor-form").append(el("datalist", { id }, values.map((value) => el("option", { value }))));
  }
}
