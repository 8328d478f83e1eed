// Form and YAML text of one definition. The API converts between them and validates while the user
// types. Unsaved changes are kept in this tab.

import { call } from "../api.js";
import { byId, el, fill, later, setText } from "../dom.js";
import { Draft } from "../draft.js";
import { valueLists } from "../resource-fields.js";
import { environmentGroups } from "./fields.js";
import { DefinitionForm } from "./form.js";
import { TextView } from "./text.js";
import { count } from "../words.js";

const PAUSE = 350; // milliseconds without a keystroke

export class Editor {
  // `key` names the draft kept in this tab; `onState({definition, problems, changed})` is called after
  // every validation.
  constructor({ key, fixed = [], onState = (_) => {} }) {
    this.draft = new Draft(`portal-curate ${key}`);
    this.onState = onState;
    this.view = "form";
    this.asked = 0;
    this.problems = [];
    this.definition = null; // the last one that the API could parse
    this.saved = { form: "", text: "" };
    this.others = byId("editor-problems");
    this.status = byId("editor-status");
    const fields = JSON.parse(byId("resource-fields").textContent);
    this.form = new DefinitionForm(byId("editor-form"), { groups: environmentGroups(fields), lists: valueLists(fields), fixed, onChange: () => this.#typed() });
    this.text = new TextView(byId("editor-text"), () => this.#typed());
    this.check = later(() => this.validate(), PAUSE);
    for (const view of ["form", "text"]) byId(`editor-as-${view}`).addEventListener("click", () => this.turn(view));
    this.#tabs();
    window.addEventListener("beforeunload", (event) => this.changed && event.preventDefault());
  }

  // The content of the open view: {definition} or {text}, as the API takes it.
  get content() {
    return this.view === "form" ? { definition: this.form.value } : { text: this.text.value };
  }

  get changed() {
    return this.#now()[this.view] !== this.saved[this.view];
  }

  // Shows what is saved, {definition} or {text}, in the form. Resolves after the API has validated it;
  // if the text cannot be parsed, `otherwise` is shown.
  async open({ definition = undefined, text = undefined }, otherwise = {}) {
    if (text !== undefined) {
      this.text.value = text;
      this.turnTo("text");
      await this.validate();
      if (!this.definition) this.form.value = otherwise;
    } else {
      this.form.value = definition;
    }
    this.turnTo("form");
    this.#mark();
    await this.validate();
    if (this.changed) return; // the user has typed since
    this.#mark(); // also the text as the API writes it
    this.onState({ definition: this.problems.length ? null : this.definition, problems: this.problems, changed: false });
  }

  // Shows an unsaved definition or text.
  async edit({ definition = undefined, text = undefined }) {
    if (definition) {
      this.form.value = definition;
      this.turnTo("form");
    } else {
      this.text.value = text;
      this.turnTo("text");
    }
    this.#keep();
    return this.validate();
  }

  // The content is saved: discard the kept draft.
  done() {
    this.draft.forget();
    this.#mark();
  }

  // Validates with the API; returns the definition, or null if it has problems.
  async validate() {
    this.check.cancel(); // or a pending check would make this answer outdated
    this.asked += 1;
    const mine = this.asked;
    setText(this.status, "Checking…");
    try {
      const answer = await call("environments/validate", { method: "POST", body: this.content });
      if (mine !== this.asked) return null; // the user has typed since
      this.problems = answer.problems;
      this.definition = answer.definition ?? null;
      if (this.view === "form" && answer.text) this.text.value = answer.text;
      if (this.view === "text" && answer.definition) this.form.value = answer.definition;
      this.#show();
      return answer.problems.length ? null : this.definition;
    } catch (error) {
      if (mine !== this.asked) return null;
      setText(this.status, error.message);
      this.onState({ definition: null, problems: [{ message: error.message }], changed: this.changed });
      return null;
    }
  }

  // Shows the API's refusal at its field.
  refuse(error) {
    this.problems = [{ field: error.field ?? "", line: null, message: error.message }];
    this.#show();
  }

  // Switches the view, unless the text cannot be parsed.
  async turn(view) {
    if (view === this.view) return;
    await this.validate();
    if (view === "form" && !this.definition) {
      setText(this.status, "The form cannot show this text yet. Fix the problems listed below the text.");
      this.text.area.focus();
      return;
    }
    this.turnTo(view);
    this.#show();
  }

  turnTo(view) {
    this.view = view;
    for (const name of ["form", "text"]) {
      byId(`editor-${name}`).hidden = name !== view;
      const tab = byId(`editor-as-${name}`);
      tab.setAttribute("aria-selected", String(name === view));
      tab.tabIndex = name === view ? 0 : -1;
    }
  }

  #typed() {
    this.#keep();
    this.check();
  }

  #keep() {
    if (this.changed) this.draft.keep(this.content);
    else this.draft.forget();
  }

  #mark() {
    this.saved = this.#now();
  }

  #now() {
    return { form: JSON.stringify(this.form.value), text: this.text.value };
  }

  #show() {
    const { problems } = this;
    const others = this.form.show(problems);
    this.text.show(problems);
    fill(this.others, this.view === "form" ? others.map(({ field, message }) => el("li", field && !message.includes(field) ? `${field}: ${message}` : message)) : []);
    setText(this.status, problems.length ? `${count(problems.length, "problem")}.` : "No problems.");
    this.onState({ definition: problems.length ? null : this.definition, problems, changed: this.changed });
  }

  #tabs() {
    byId("editor-tabs").addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      const other = this.view === "form" ? "text" : "form";
      this.turn(other).then(() => byId(`editor-as-${this.view}`).focus());
    });
  }
}
