// The form of a project: a request, and a change of one.

import { call } from "../api.js";
import { el } from "../dom.js";
import { openForm } from "../forms.js";
import { Row, input } from "../run/row.js";
import { names, pageOf, pathOf } from "./words.js";

const filled = (row, value) => {
  row.control.value = String(value ?? "");
  return row;
};
const number = (row) => (row.value === "" ? null : Number(row.value));

// `detail`: the project that is changed, as the API has it; null for a new one.
/** @param {any} detail @param {() => void} [onDone] */
export function openProject(detail = null, onDone = () => {}) {
  const before = detail?.project ?? {};
  const purpose = el("textarea.form-control", { rows: 3, maxlength: 4000 });
  const ends = el("input.form-control", { type: "date" });
  /** @type {any} */
  const rows = {
    name: new Row("Name", input("proteins"), "Lowercase letters, digits and dashes, up to 20. It cannot be changed later."),
    title: filled(new Row("Title", input("Protein folding")), before.title),
    description: filled(new Row("Purpose", purpose), before.description),
    account: filled(new Row("Slurm account", input(), "Sessions are charged to it; empty: to each member’s own."), before.account),
    budget: filled(new Row("Budget in GPU-hours", input("", 0), "Empty: no limit."), before.budget),
    ends: filled(new Row("Last day", ends, "Then it is archived. Empty: it has no end."), before.ends),
    "largest.gpus": filled(new Row("GPUs of a member at once", input("", 0)), before.largest?.gpus ?? 1),
    environments: filled(new Row("Environments", input(), "Names, separated by commas; empty: all that a member sees."), (before.environments ?? []).join(", ")),
    roster_group: filled(new Row("Group of the directory", input(), "Its users are members. Empty: none."), before.roster_group),
  };
  const members = new Row("Members", input("barbara, carl"), "User names. You can add more later, and readers.");
  const send = async () => {
    const project = {
      ...before,
      name: detail ? before.name : rows.name.value,
      title: rows.title.value,
      description: rows.description.value,
      account: rows.account.value || null,
      budget: number(rows.budget),
      ends: rows.ends.value || null,
      largest: { ...before.largest, gpus: number(rows["largest.gpus"]) ?? 0 },
      environments: names(rows.environments.value),
      roster_group: rows.roster_group.value,
    };
    for (const row of Object.values(rows)) row.show("");
    try {
      if (detail) {
        await call(pathOf(before.name), { method: "PUT", body: { project, number: detail.number } });
        dialog.close();
        onDone();
      } else {
        const people = names(members.value).map((person) => ({ person, role: /** @type {const} */ ("member") }));
        await call("projects", { method: "POST", body: { project, members: people } });
        window.location.assign(pageOf(project.name));
      }
    } catch (error) {
      const row = rows[(error.field ?? "").replace(/^project\./, "")];
      if (!row) throw error;
      row.show(error.message);
      row.control.focus();
    }
  };
  const shown = Object.entries(rows).filter(([name]) => !(detail && name === "name"));
  const dialog = openForm({
    id: "project-form",
    title: detail ? `Change ${before.title}` : "Request a project",
    content: [shown.map(([, { node }]) => node), detail ? null : members.node].flat(),
    action: detail ? "Save project" : "Request project",
    first: (detail ? rows.title : rows.name).control,
    send,
  });
  dialog.classList.add("project-fields");
}

// A project from a file, which `portal` has exported here or elsewhere.
export function openImport() {
  const file = el("input.form-control", { type: "file", accept: ".yaml,.yml" });
  const from = new Row("File", file, "As a project’s page exports it.");
  const name = new Row("Name", input(), "Empty: the file’s own.");
  const people = el("input.form-check-input", { type: "checkbox", id: "import-members" });
  const send = async () => {
    const chosen = file.files?.[0];
    if (!chosen) {
      from.show("Choose a file.");
      file.focus();
      return;
    }
    const body = { text: await chosen.text(), name: name.value || null, members: people.checked };
    const made = await call("projects/import", { method: "POST", body });
    window.location.assign(pageOf(made.project.name));
  };
  const check = el("div.form-check", people, el("label.form-check-label", { for: people.id }, "With the members in the file"));
  const dialog = openForm({ id: "project-import", title: "Import a project", content: [from.node, name.node, check], action: "Import project", first: file, send });
  dialog.classList.add("project-fields");
}
