// Fields of the dialogs about models: text with words, who may use a model, and errors beside their field.

import { el } from "../dom.js";
import { Row, input } from "../run/row.js";

// A Row whose value is a number or null.
export const number = (row) => (row.value === "" ? null : Number(row.value));
export const filled = (row, value) => {
  row.control.value = String(value ?? "");
  return row;
};
export const names = (text) => text.split(/[\s,]+/).filter(Boolean);

// A dialog's rows by the API's field, and `refuse(error)`: shows it beside its field; otherwise throws it.
export function refusing(rows) {
  return (error) => {
    const field = (error.field ?? "").split(".")[0];
    for (const row of Object.values(rows)) row.show("");
    const row = rows[error.field] ?? rows[field];
    if (!row) throw error;
    row.show(error.message);
    row.control.focus();
  };
}

// Who may use a model, besides its owner: `rows` and what is chosen, as the API has it. `own`: groups and projects of
// the owner, by title.
export class Audience {
  constructor({ users = [], groups = [], projects = [], everyone = false } = {}, own = { groups: [], projects: [] }) {
    this.everyone = el("input.form-check-input", { type: "checkbox", id: "model-everyone", checked: everyone });
    this.users = filled(new Row("Users", input("barbara, carl"), "Besides you, separated by commas."), users.join(", "));
    this.groups = filled(new Row("Groups", input(own.groups.slice(0, 2).join(", "))), groups.join(", "));
    const known = el("datalist", { id: "model-groups" }, own.groups.map((name) => el("option", { value: name })));
    // One that the owner has left can be taken away, too.
    const left = projects.filter((name) => !own.projects.some((project) => project.name === name));
    const offered = [...own.projects, ...left.map((name) => ({ name, title: name }))];
    this.projects = offered.map(({ name, title }) => [el("input.form-check-input", { type: "checkbox", id: `model-project-${name}`, value: name, checked: projects.includes(name) }), title]);
    this.groups.control.setAttribute("list", known.id);
    this.rows = { users: this.users, groups: this.groups };
    this.node = el(
      "fieldset",
      el("legend", "Who may use it"),
      el("div.form-check", this.everyone, el("label.form-check-label", { for: "model-everyone" }, "Everyone who can sign in")),
      this.projects.map(([box, title]) => el("div.form-check", box, el("label.form-check-label", { for: box.id }, `Members of the project ${title}`))),
      this.users.node,
      this.groups.node,
      known,
    );
  }

  get value() {
    const projects = this.projects.filter(([box]) => box.checked).map(([box]) => box.value);
    return { users: names(this.users.value), groups: names(this.groups.value), projects, everyone: this.everyone.checked };
  }
}

// The words of a command as a shell reads them: quotation marks keep spaces, a backslash the next letter. Throws for a
// mark that is not closed.
export function words(text) {
  const found = [];
  let word = null; // being read
  let mark = "";
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (letter === "\\" && mark !== "'" && at + 1 < text.length) word = (word ?? "") + text[(at += 1)];
    else if (letter === mark) mark = "";
    else if (!mark && (letter === "'" || letter === '"')) [mark, word] = [letter, word ?? ""];
    else if (!mark && /\s/.test(letter)) {
      if (word !== null) found.push(word);
      word = null;
    } else word = (word ?? "") + letter;
  }
  if (mark) throw Object.assign(new Error(`A ${mark} in the command is not closed.`), { field: "command" });
  if (word !== null) found.push(word);
  return found;
}

// The command as text that `words` reads.
export const shellText = (command) => command.map((word) => (/^[\w@%+=:,./{}~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
