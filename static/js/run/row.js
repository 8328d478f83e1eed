// A row of the form of a new run: a label, an input or select, a note, and what is wrong with it.

import { el, setText } from "../dom.js";

let made = 0; // for ids

export class Row {
  // `label`: its text, or another control in its place.
  constructor(label, control, note = "") {
    const id = (control.id ||= `run-field-${made++}`);
    this.control = control;
    this.problem = el("p.text-danger", { id: `${id}-problem`, role: "alert", hidden: true });
    const noted = el("p.portal-quiet", { id: `${id}-note`, hidden: !note }, note);
    control.setAttribute("aria-describedby", `${noted.id} ${this.problem.id}`);
    const named = typeof label === "string" ? el("label.form-label", { for: id }, label) : label;
    this.node = el("div.run-row", named, control, noted, this.problem);
  }

  get value() {
    return this.control.value.trim();
  }

  // Shows the sentence beside the control; "" if nothing is wrong with it.
  show(problem) {
    setText(this.problem, problem);
    this.problem.hidden = !problem;
    this.control.setAttribute("aria-invalid", String(Boolean(problem)));
    const folded = problem && this.node.closest("details");
    if (folded) folded.open = true;
  }
}

export const input = (placeholder = "", least = undefined) =>
  el("input.form-control", { type: least === undefined ? "text" : "number", min: least, placeholder, spellcheck: "false", autocomplete: "off" });

// `options`: pairs of a value and its words.
export const select = (options) => el("select.form-select", options.map(([value, words]) => el("option", { value }, words)));
