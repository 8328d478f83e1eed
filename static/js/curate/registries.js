// Registries: list, add, change, check, remove. Passwords are sent, but never received.

import { call } from "../api.js";
import { confirmed, tell } from "../dialog.js";
import { byId, el, empty, fill, setText } from "../dom.js";
import { sends } from "../forms.js";
import { count } from "../words.js";
import { when } from "./words.js";

// NVIDIA's registry takes an API key with this user name.
const NGC = "nvcr.io";
const NGC_USER = "$oauthtoken";
const form = byId("registry");
const fields = form.elements;
let changing = ""; // host of the registry being changed

async function load() {
  try {
    const { items } = await call("registries");
    setText(byId("list-count"), items.length ? count(items.length, "registry", "registries") : "");
    fill(byId("list"), items.length ? el("ul.entries", items.map(entry)) : empty("No registries yet. Images are pulled without credentials."));
  } catch (error) {
    setText(byId("list-count"), error.message);
  } finally {
    byId("list").removeAttribute("aria-busy");
  }
}

function entry(item) {
  const said = el("p.why", { role: "status" });
  const secret = item.password_file ? `password in ${item.password_file}` : item.has_password ? "password is stored" : "no password";
  const check = el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "aria-label": `Check ${item.host}`, onclick: () => checkIt(item.host, check, said) }, "Check");
  return el(
    "li.entry",
    { dataset: { host: item.host } },
    el(
      "div",
      el("h3", item.host),
      el(
        "p.portal-facts",
        item.username ? el("span", item.username) : null,
        el("span", secret),
        item.mirror ? el("span", `mirror ${item.mirror}`) : null,
        item.insecure ? el("span", "TLS is not verified") : null,
        item.ca_file ? el("span", `CA file ${item.ca_file}`) : null,
        el("span", `by ${item.author}, `, when(item.at)),
      ),
      said,
    ),
    el(
      "div.entry-actions",
      check,
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "aria-label": `Change ${item.host}`, onclick: () => change(item) }, "Change"),
      el("button.btn.btn-sm.btn-outline-danger.portal-danger", { type: "button", "aria-label": `Remove ${item.host}`, onclick: () => remove(item.host) }, "Remove"),
    ),
  );
}

async function checkIt(host, button, said) {
  button.disabled = true;
  said.classList.remove("form-problem");
  setText(said, "Checking…");
  try {
    const answer = await call(`registries/${encodeURIComponent(host)}/check`, { method: "POST", body: {} });
    setText(said, answer?.message ?? "The registry answers and accepts the credentials.");
  } catch (error) {
    said.classList.add("form-problem");
    setText(said, error.message);
  } finally {
    button.disabled = false;
  }
}

function change(item) {
  clear();
  changing = item.host;
  for (const name of ["host", "username", "password_file", "mirror", "ca_file"]) fields[name].value = item[name];
  fields.insecure.checked = item.insecure;
  fields.host.readOnly = true;
  setText(byId("registry-title"), `Change ${item.host}`);
  fields.password.placeholder = item.has_password && !item.password_file ? "Stored. Type to replace it." : "";
  form.scrollIntoView({ block: "nearest" });
  fields.username.focus();
}

function clear() {
  changing = "";
  form.reset();
  fields.host.readOnly = false;
  fields.password.placeholder = "";
  setText(byId("registry-title"), "Add a registry");
  setText(byId("registry-problem"), "");
}

async function remove(host) {
  const question = { title: `Remove ${host}?`, text: "Its stored password is deleted. Existing images are kept.", action: "Remove", danger: true, keep: "Keep registry" };
  const removed = await confirmed(question, () => call(`registries/${encodeURIComponent(host)}`, { method: "DELETE" }), `${host} is removed.`);
  if (removed && changing === host) clear();
  await load();
}

fields.host.addEventListener("input", () => {
  if (fields.host.value.trim() === NGC && !fields.username.value) fields.username.value = NGC_USER;
});
const send = async () => {
  const text = (name) => fields[name].value.trim();
  const host = text("host");
  const body = { host, username: text("username"), password_file: text("password_file"), mirror: text("mirror"), ca_file: text("ca_file"), insecure: fields.insecure.checked };
  // If left out, the stored password is kept.
  if (fields.password.value) body.password = fields.password.value;
  await call(`registries/${encodeURIComponent(host)}`, { method: "PUT", body });
  clear();
  await tell(() => `${host} is saved.`);
  await load();
};
sends(form, byId("registry-problem"), send, { button: byId("registry-save") });
byId("registry-clear").addEventListener("click", clear);
load();
