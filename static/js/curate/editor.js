// Form and YAML text of one definition, kept the same by the API, which also says what is wrong while
// one types. What was typed is kept in this tab until it is saved.

import { call } from "../api.js";
import { byId, el, fill, later, setText } from "../dom.js";
import { Draft } from "../draft.js";
import { DefinitionForm } from "./form.js";
import { TextView } from "./text.js";
import { count } from "../words.js";

const PAUSE = 350; // milliseconds without a key

export class Editor {
  // `key` names what is kept in this tab; `onState({definition, problems, changed})` hears every check.
  constructor({ key, fixed = [], onState = (_) => {} }) {
    this.draft = new Draft(`portal-curate ${key}`);
    this.onState = onState;
    this.view = "form";
    this.asked = 0;
    this.problems = [];
    this.definition = null; // the last one that the API could read
    this.saved = { form: "", text: "" };
    this.others = byId("editor-problems");
    this.status = byId("editor-status");
    this.form = new DefinitionForm(byId("editor-form"), { fixed, onChange: () => this.#typed() });
    this.text = new TextView(byId("editor-text"), () => this.#typed());
    this.check = later(() => this.validate(), PAUSE);
    for (const view of ["form", "text"]) byId(`editor-as-${view}`).addEventListener("click", () => this.turn(view));
    this.#tabs();
    window.addEventListener("beforeunload", (event) => this.changed && event.preventDefault());
  }

  // What stands in the view that is open: {definition} or {text}, as the API takes it.
  get content() {
    return this.view === "form" ? { definition: this.form.value } : { text: this.text.value };
  }

  get changed() {
    return this.#now()[this.view] !== this.saved[this.view];
  }

  // Shows what is saved now, {definition} or {text}, in the form. Resolves when the API has said what
  // it thinks of it; of a text that it does not take, `otherwise` is shown.
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
    if (this.changed) return; // somebody has typed since
    this.#mark(); // the text as the API writes it, too
    this.onState({ definition: this.problems.length ? null : this.definition, problems: this.problems, changed: false });
  }

  // Shows a definition, or a text, that is not saved.
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

  // What is there is saved: nothing is kept any more.
  done() {
    this.draft.forget();
    this.#mark();
  }

  // Asks the API; returns the definition, or null when something is wrong with it.
  async validate() {
    this.check.cancel(); // or what was typed before would be asked again, and this answer be an old one
    this.asked += 1;
    const mine = this.asked;
    setText(this.status, "Checking…");
    try {
      const answer = await call("environments/validate", { method: "POST", body: this.content });
      if (mine !== this.asked) return null; // somebody has typed since
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

  // Says what the API refused with, at its field.
  refuse(error) {
    this.problems = [{ field: error.field ?? "", line: null, message: error.message }];
    this.#show();
  }

  // The other view; a text that cannot be read stays where it is.
  async turn(view) {
    if (view === this.view) return;
    await this.validate();
    if (view === "form" && !this.definition) {
      setText(this.status, "The form can show it when the text can be read. See what is wrong below the text.");
      this.text.area.focus();
      return;
    }
    this.turnTo(view);
    this.#show();
  }

  turnTo(view) {
    this.view = view;
    for (const one of ["form", "text"]) {
      byId(`editor-${one}`).hidden = one !== view;
      const tab = byId(`editor-as-${one}`);
      tab.setAttribute("aria-selected", String(one === view));
      tab.tabIndex = one === view ? 0 : -1;
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
    fill(this.others, this.view === "form" ? others.map(({ field, message }) => el("li", {}, field && !message.includes(field) ? `${field}: ${message}` : message)) : []);
    setText(this.status, problems.length ? `${count(problems.length, "thing is", "things are")} wrong.` : "Nothing is wrong.");
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
