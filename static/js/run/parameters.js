// The parameters in the form of a new run: a row for each that a notebook declares; of a script, any number of rows.

import { el, fill } from "../dom.js";
import { input, Row } from "./row.js";

const HINT = "Separate values with commas. Each is combined with the values of the other parameters.";

export class Parameters {
  // `onFirstCell(on)`: the first cell shall have the parameters, or no longer.
  constructor(place, onFirstCell) {
    this.place = place;
    this.rows = new Map(); // of a notebook, by parameter
    this.free = []; // of a script: pairs of the control of a name and a row
    this.firstCell = el("input.form-check-input", { type: "checkbox", id: "run-first-cell", onchange: () => onFirstCell(this.firstCell.checked) });
  }

  // `declared`: null of a script. What was typed for the same names stays.
  show(declared) {
    const before = this.values;
    this.rows = new Map();
    this.free = [];
    const missing = declared && !declared.length;
    const words = !declared
      ? `The script receives them as arguments: --name=value. ${HINT}`
      : missing
        ? "No cell has the tag “parameters”, so the notebook is executed once."
        : HINT;
    const choice = missing || this.firstCell.checked;
    fill(
      this.place,
      el("legend", "Parameters"),
      el("p.portal-quiet", words),
      declared && choice ? el("div.form-check", this.firstCell, el("label.form-check-label", { for: this.firstCell.id }, "Use the first cell as parameters")) : null,
    );
    this.place.hidden = false;
    for (const { name, type, value, help } of declared ?? []) {
      const usual = `${type || "expression"}, default ${value}`;
      const row = new Row(name, input(value), help ? `${help} (${usual})` : usual);
      row.control.value = before[name] ?? "";
      this.rows.set(name, row);
      this.place.append(row.node);
    }
    if (declared) return;
    const add = el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#add("", "", add).focus() }, "Add parameter");
    this.place.append(add);
    for (const [name, text] of Object.entries(before)) this.#add(name, text, add);
  }

  // The text of those that have values.
  get values() {
    const named = [...this.rows].map(([name, row]) => [name, row.value]);
    const free = this.free.map(([name, row]) => [name.value.trim(), row.value]);
    return Object.fromEntries([...named, ...free].filter(([name, text]) => name && text));
  }

  row(name) {
    return this.rows.get(name) ?? this.free.find(([control]) => control.value.trim() === name)?.[1];
  }

  get all() {
    return [...this.rows.values(), ...this.free.map(([, row]) => row)];
  }

  #add(name, text, before) {
    const number = this.free.length + 1;
    const [named, control] = [input("name"), input("0.1, 0.01")];
    named.setAttribute("aria-label", `Name of parameter ${number}`);
    control.setAttribute("aria-label", `Values of parameter ${number}`);
    [named.value, control.value] = [name, text];
    const row = new Row(named, control);
    this.free.push([named, row]);
    before.before(row.node);
    return named;
  }
}
