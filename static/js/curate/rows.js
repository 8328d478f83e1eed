// A list of rows in a form, e.g. kernels: add, change, remove.

import { el } from "../dom.js";

export class Rows {
  // `noun`: the word for a row; `columns`: {name, label, kind: "check", "number" or "choice" with its
  // choices, type: of the input}. `id`: prefix of the fields' ids.
  constructor({ id, noun, columns, describedBy }, onChange) {
    this.id = id;
    this.noun = noun;
    this.columns = columns;
    this.describedBy = describedBy;
    this.onChange = onChange;
    this.made = 0;
    this.list = el("ul.rows", { id: `${id}-rows` });
    this.adder = el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#add({}, true) }, `Add a ${noun}`);
    this.element = el("div", this.list, this.adder);
  }

  get value() {
    return [...this.list.children].map((row) => {
      const values = {};
      for (const field of row.querySelectorAll("[data-column]")) {
        let value = field.type === "checkbox" ? field.checked : field.value.trim();
        if (field.dataset.number && /^-?[0-9]{1,15}$/.test(value)) value = Number(value);
        if (value !== "") values[field.dataset.column] = value;
      }
      return values;
    });
  }

  set value(rows) {
    if (JSON.stringify(rows.map(plain)) === JSON.stringify(this.value.map(plain))) return;
    this.list.replaceChildren();
    for (const row of rows) this.#add(row, false);
  }

  #add(values, focus) {
    this.made += 1;
    const number = this.made;
    const row = el(
      "li.row-line",
      this.columns.map((column) => {
        const id = `${this.id}-${number}-${column.name}`;
        if (column.kind === "check") {
          const box = el("input", { id, type: "checkbox", checked: values[column.name] ?? true, dataset: { column: column.name } });
          return el("label.check", { for: id }, box, ` ${column.label}`);
        }
        const common = { id, "aria-describedby": this.describedBy, dataset: { column: column.name, ...(column.number ? { number: "1" } : {}) } };
        const field = column.choices
          ? el("select.form-select.form-select-sm", common, column.choices.map(([value, words]) => el("option", { value }, words)))
          : el("input.form-control.form-control-sm", { ...common, type: column.type ?? "text", inputmode: column.number ? "numeric" : null, autocomplete: "off" });
        field.value = values[column.name] ?? column.usual ?? column.choices?.[0][0] ?? "";
        return el("div", el("label.form-label", { for: id }, column.label), field);
      }),
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "aria-label": `Remove this ${this.noun}`, onclick: () => this.#remove(row) }, "Remove"),
    );
    this.list.append(row);
    if (!focus) return;
    row.querySelector("input, select").focus();
    this.onChange();
  }

  #remove(row) {
    row.remove();
    this.adder.focus();
    this.onChange();
  }
}

const plain = (row) => Object.entries(row).filter(([, value]) => value !== "" && value !== null).sort();
