// A form of fields in groups (fields.js), for environments and spaces. Keys of the definition without
// a field are kept.

import { el, setText } from "../dom.js";
import { capital } from "../words.js";
import { isEmpty, put, take } from "./fields.js";
import { Rows } from "./rows.js";

export class DefinitionForm {
  // `fixed`: names of fields that cannot be changed, e.g. the name of an existing environment;
  // `readOnly`: no field can; `lists`: suggestions, by the ids that fields name as their `list`.
  constructor(place, { onChange, groups, lists = {}, fixed = [], readOnly = false }) {
    this.base = {};
    /** @type {any[]} */
    this.fields = groups.flatMap((group) => group.fields);
    this.readOnly = readOnly;
    this.onChange = onChange;
    this.inputs = new Map();
    place.replaceChildren(
      ...groups.map((group) => {
        const fields = el("div.fields", group.fields.map((field) => this.#field(field, fixed.includes(field.name))));
        // Rarely changed groups are folded; they open if a value in them is not the usual one.
        if (group.folded) return el("details.field-group", el("summary", group.legend), fields);
        return el("fieldset.field-group", el("legend", group.legend), fields);
      }),
      ...Object.entries(lists).map(([id, values]) => el("datalist", { id }, values.map((value) => el("option", { value })))),
    );
    place.addEventListener("input", () => this.#changed());
    place.addEventListener("change", () => this.#changed());
    this.#fit();
  }

  get value() {
    const values = structuredClone(this.base);
    for (const field of this.fields) put(values, field.name, this.#read(field));
    return values;
  }

  set value(definition) {
    this.base = structuredClone(definition);
    for (const field of this.fields) {
      const value = take(definition, field.name);
      this.#write(field, value);
      if (!isEmpty(value) && value !== field.usual && field.opens !== false) this.#unfold(field.name);
    }
    this.#fit();
  }

  // Shows each problem {field, message} at its field; returns those without a field in this form.
  show(problems) {
    const at = new Map();
    const others = [];
    for (const problem of problems) {
      const name = this.#fieldOf(problem.field ?? "");
      if (!name || this.inputs.get(name).block.hidden) others.push(problem);
      else at.set(name, [...(at.get(name) ?? []), inWords(problem, name)]);
    }
    for (const [name, { element, problem }] of this.inputs) {
      setText(problem, (at.get(name) ?? []).join(" "));
      if (at.has(name)) this.#unfold(name);
      if (at.has(name)) element.setAttribute("aria-invalid", "true");
      else element.removeAttribute("aria-invalid");
    }
    return others;
  }

  // Focuses the field with this name.
  focus(name) {
    const { element } = this.inputs.get(name) ?? {};
    (element?.matches("input, textarea, select") ? element : element?.querySelector("input, button"))?.focus();
  }

  #unfold(name) {
    const group = this.inputs.get(name).block.closest("details");
    if (group) group.open = true;
  }

  #changed() {
    this.#fit();
    this.onChange();
  }

  // Shows only the fields of the chosen kind of environment.
  #fit() {
    for (const { field, block } of this.inputs.values()) {
      const by = this.inputs.get(field.by ?? "kind")?.element;
      block.hidden = Boolean(field.of) && !field.of.includes(by.value);
    }
  }

  // The form's field for "binds.0.source" or "default.memory"; "" if there is none.
  #fieldOf(path) {
    const steps = path.split(".");
    for (let length = steps.length; length > 0; length -= 1) {
      const name = steps.slice(0, length).join(".");
      if (this.inputs.has(name)) return name;
    }
    return "";
  }

  #field(field, fixed) {
    const id = `field-${field.name.replace(".", "-")}`;
    const describedBy = [field.help && `${id}-help`, `${id}-problem`].filter(Boolean).join(" ");
    const problem = el("p.form-problem", { id: `${id}-problem` });
    const help = field.help ? el("p.field-help", { id: `${id}-help` }, field.help) : null;
    if (field.columns) {
      const rows = new Rows({ id, noun: field.noun, columns: field.columns, describedBy }, () => this.#changed());
      const block = el("div.field-whole", { role: "group", "aria-labelledby": `${id}-label`, "aria-describedby": describedBy }, el("p.form-label", { id: `${id}-label` }, field.label), rows.element, help, problem);
      if (this.readOnly) block.inert = true;
      this.inputs.set(field.name, { field, element: rows.element, rows, block, problem });
      return block;
    }
    const element = this.#input(field, id);
    element.setAttribute("aria-describedby", describedBy);
    if (fixed) element.readOnly = true;
    if (this.readOnly) element.disabled = true;
    if (field.kind === "check") {
      const block = el("div", el("label.check", { for: id }, element, ` ${field.label}`), help, problem);
      this.inputs.set(field.name, { field, element, block, problem });
      return block;
    }
    const block = el(`div${field.kind === "area" ? ".field-whole" : ""}`, el("label.form-label", { for: id }, field.label), element, help, problem);
    this.inputs.set(field.name, { field, element, block, problem });
    return block;
  }

  #input(field, id) {
    const { name } = field;
    if (field.kind === "choice") return el("select.form-select", { id, name }, field.choices.map(([value, words]) => el("option", { value }, words)));
    if (field.kind === "area") return el("textarea.form-control", { id, name, rows: 5 });
    if (field.kind === "check") return el("input", { id, name, type: "checkbox" });
    const number = field.kind === "number" || field.kind === "decimal";
    return el("input.form-control", { id, name, type: field.type ?? "text", list: field.list, inputmode: number ? "numeric" : null, autocomplete: "off", spellcheck: name === "title" ? null : "false" });
  }

  #read(field) {
    const { element, rows, block } = this.inputs.get(field.name);
    if (block.hidden) return undefined;
    if (field.kind === "rows") return rows.value;
    if (field.kind === "dates") return rows.value.map((row) => row.date).filter(Boolean);
    if (field.kind === "pairs") return Object.fromEntries(rows.value.filter((row) => row.name).map((row) => [row.name, row.value ?? ""]));
    if (field.kind === "check") return element.checked;
    const text = element.value.trim();
    if (field.kind === "words") return text.split(/[,\n]/).map((word) => word.trim()).filter(Boolean);
    // Invalid numbers stay text, so that the API reports them at the field.
    if (field.kind === "number" && /^-?[0-9]{1,15}$/.test(text)) return Number(text);
    if (field.kind === "decimal" && /^-?[0-9]{1,15}([.][0-9]{1,9})?$/.test(text)) return Number(text);
    // The default is left out of the file.
    if (field.name === "server" && text === "inside") return undefined;
    return text;
  }

  #write(field, value) {
    const { element, rows } = this.inputs.get(field.name);
    if (field.kind === "rows") rows.value = value ?? [];
    else if (field.kind === "dates") rows.value = (value ?? []).map((date) => ({ date }));
    else if (field.kind === "pairs") rows.value = Object.entries(value ?? {}).map(([name, text]) => ({ name, value: text }));
    else if (field.kind === "check") element.checked = Boolean(value);
    else if (field.kind === "choice") element.value = value ?? field.choices[0][0];
    else {
      const text = Array.isArray(value) ? value.join(", ") : (value ?? "");
      if (element.value !== String(text)) element.value = text;
    }
  }
}

// The row of a list, then the problem.
function inWords(problem, name) {
  const row = problem.field.slice(name.length + 1).split(".")[0];
  const message = problem.message.replace(`'${problem.field}'`, "").replace(/^:? /, "").replace(/[^.!?]$/, "$&.");
  const words = capital(message);
  if (!row) return words;
  return /^[0-9]+$/.test(row) ? `No. ${Number(row) + 1}: ${words}` : `${row}: ${words}`;
}
