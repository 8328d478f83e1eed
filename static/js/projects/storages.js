// The S3-compatible storages of a project: for those who work in it; its owners add and remove them.

import { call } from "../api.js";
import { confirmed } from "../dialog.js";
import { button, byId, el, setText, showTrouble } from "../dom.js";
import { openForm } from "../forms.js";
import { menu } from "../menu.js";
import { Row, input } from "../run/row.js";
import { Table } from "../table.js";
import { count, day } from "../words.js";
import { pathOf } from "./words.js";

const section = byId("storages-part");
const { name: project } = byId("project").dataset;
const path = /** @type {`projects/${string}/storages`} */ (`${pathOf(project)}/storages`);
let owns = false;
const table = new Table(byId("storages"), {
  label: "storages-title",
  key: ({ name }) => name,
  columns: [
    { head: "Name", cell: ({ name }) => name },
    { head: "Server", wide: true, cell: ({ endpoint, region }) => [el("span.first", endpoint), region ? el("span.second", region) : null] },
    { head: "Access key", cell: ({ access_key: key }) => el("code", key) },
    { head: "Added", cell: ({ added_by: by, added_at: at }) => `${by}, ${day(at)}` },
    { head: "", cell: ({ name }) => (owns ? menu(name, button("Remove storage…", () => remove(name), "outline-danger.portal-danger")) : null) },
  ],
});

async function load() {
  try {
    const { items } = await call(path);
    byId("storages").removeAttribute("aria-busy");
    setText(byId("storages-count"), items.length ? count(items.length, "storage") : "");
    table.show(items, owns ? "Add a bucket’s server and keys, and sessions of the project copy with portal-s3." : "The project has no S3-compatible storage. Its owners can add one.");
  } catch (error) {
    showTrouble(error);
  }
}

async function remove(name) {
  const question = { title: `Remove the storage ${name}?`, text: "Its keys are deleted here. What is stored there stays.", action: "Remove storage", danger: true };
  await confirmed(question, () => call(path, { method: "DELETE", query: { name } }), `The storage ${name} is removed.`);
  await load();
}

byId("add-storage").addEventListener("click", () => {
  const secret = input();
  secret.type = "password";
  secret.autocomplete = "off";
  /** @type {any} */
  const rows = {
    name: new Row("Name", input("results"), "Used in portal-s3 copy results:BUCKET/PATH . – an existing one is replaced."),
    endpoint: new Row("Server", input("https://s3.example.org"), "The URL of the S3-compatible server."),
    region: new Row("Region", input(), "Empty: the server’s default."),
    access_key: new Row("Access key", input()),
    secret_key: new Row("Secret key", secret, "It is stored encrypted and not shown again. Members’ sessions use it, so members can read it: make a key for this project only."),
  };
  const send = async () => {
    for (const row of Object.values(rows)) row.show("");
    const body = Object.fromEntries(Object.entries(rows).map(([field, row]) => [field, row.value]));
    try {
      await call(path, { method: "POST", body: /** @type {any} */ (body) });
    } catch (error) {
      const row = rows[error.field ?? ""];
      if (!row) throw error;
      row.show(error.message);
      row.control.focus();
      return;
    }
    dialog.close();
    await load();
  };
  const dialog = openForm({ id: "storage-form", title: "Add a storage", content: Object.values(rows).map(({ node }) => node), action: "Add storage", first: rows.name.control, send });
  dialog.classList.add("project-fields");
});

// Readers have no keys of the project, and admins who are not in it neither.
export function showStorages({ role, may }) {
  const was = section.hidden;
  owns = role === "owner" && may.includes("members");
  section.hidden = role !== "owner" && role !== "member";
  byId("add-storage").hidden = !owns;
  if (was && !section.hidden) load();
}
