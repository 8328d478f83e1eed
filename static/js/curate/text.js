// The definition as YAML, with the lines that have problems.

import { el, fill, setText } from "../dom.js";

export class TextView {
  constructor(place, onChange) {
    this.area = el("textarea.form-control.yaml", { id: "yaml", rows: 26, spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-describedby": "yaml-help yaml-problems" });
    this.problems = el("ul.yaml-problems", { id: "yaml-problems" });
    this.where = el("p.field-help", { id: "yaml-where" });
    place.replaceChildren(
      el("label.form-label", { for: "yaml" }, "Definition (YAML)"),
      el("p.field-help", { id: "yaml-help" }, "The same definition as in the form. Comments (#) written here are not kept; those in the catalog's file are."),
      this.area,
      this.where,
      this.problems,
    );
    this.area.addEventListener("input", onChange);
    for (const name of ["keyup", "click", "focus"]) this.area.addEventListener(name, () => this.#place());
  }

  get value() {
    return this.area.value;
  }

  set value(text) {
    if (this.area.value !== text) this.area.value = text;
  }

  show(problems) {
    if (problems.length) this.area.setAttribute("aria-invalid", "true");
    else this.area.removeAttribute("aria-invalid");
    fill(
      this.problems,
      problems.map(({ line, field, message }) => {
        const words = line || !field || message.includes(`'${field}'`) ? message : `${field}: ${message}`;
        return el("li", line ? el("button.link", { type: "button", onclick: () => this.go(line) }, `Line ${line}`) : null, line ? `: ${words}` : words);
      }),
    );
  }

  // Selects a line (from 1) and shows it.
  go(line) {
    const lines = this.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    this.area.focus();
    this.area.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
    this.area.scrollTop = ((line - 4) * this.area.scrollHeight) / Math.max(1, lines.length);
    this.#place();
  }

  #place() {
    const before = this.value.slice(0, this.area.selectionStart).split("\n");
    setText(this.where, `Line ${before.length}, column ${before.at(-1).length + 1}`);
  }
}
