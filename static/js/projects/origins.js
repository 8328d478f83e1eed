// Dialogs that make a project from a template of the site, or from a git repository.

import { call } from "../api.js";
import { toast } from "../dialog.js";
import { el, fill } from "../dom.js";
import { openForm } from "../forms.js";
import { Row, input, select } from "../run/row.js";
import { pageOf } from "./words.js";

export async function openTemplates() {
  let items;
  try {
    ({ items } = await call("projects/templates"));
  } catch (error) {
    toast(error.message, true);
    return;
  }
  const usable = items.filter(({ problem }) => !problem);
  if (!usable.length) {
    const wrong = items.map(({ name, problem }) => `'${name}': ${problem}`).join(" ");
    toast(wrong || "This site has no templates of projects.", Boolean(wrong));
    return;
  }
  const which = new Row("Template", select(usable.map(({ name, title }) => [name, title])));
  const about = el("p.project-purpose");
  const name = new Row("Name", input("proteins"), "Lowercase letters, digits and dashes, up to 20. It cannot be changed later.");
  const title = new Row("Title", input("Protein folding"), "Empty: the template’s.");
  const describe = () => {
    const { description, environments } = usable.find((item) => item.name === which.value);
    fill(about, description, environments.length ? el("span.second", `Environments: ${environments.join(", ")}`) : null);
  };
  which.control.addEventListener("change", describe);
  describe();
  const send = async () => {
    const made = await call("projects/templates", { method: "POST", body: { template: which.value, name: name.value, title: title.value || null } });
    window.location.assign(pageOf(made.project.name));
  };
  const dialog = openForm({ id: "project-template", title: "New project from a template", content: [which.node, about, name.node, title.node], action: "Request project", first: which.control, send });
  dialog.classList.add("project-fields");
}

export function openFork() {
  const from = new Row("Git repository", input("https://git.example.org/team/proteins.git"), "With a project.yaml at its root. Submodules, links and the history stay behind.");
  const branch = new Row("Branch", input("main"), "Empty: the repository’s own.");
  const name = new Row("Name", input("proteins"), "Empty: the file’s own.");
  const files = el("input.form-check-input", { type: "checkbox", id: "fork-files", checked: true });
  const check = el("div.form-check", files, el("label.form-check-label", { for: files.id }, "With the repository’s files, which your first session in the project puts into its folder"));
  const send = async () => {
    from.show("");
    const body = { repository: from.value, branch: branch.value, name: name.value || null, files: files.checked };
    try {
      const made = await call("projects/forks", { method: "POST", body });
      window.location.assign(pageOf(made.project.name));
    } catch (error) {
      if (error.field !== "repository") throw error;
      from.show(error.message);
      from.control.focus();
    }
  };
  const dialog = openForm({ id: "project-fork", title: "Fork a project from git", content: [from.node, branch.node, name.node, check], action: "Request project", first: from.control, send });
  dialog.classList.add("project-fields");
}
