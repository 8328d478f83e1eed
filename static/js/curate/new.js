// A new environment: propose a definition for a reference or path, then build or test it.

import { call } from "../api.js";
import { byId, el, fill, setText } from "../dom.js";
import { Editor } from "./editor.js";
import { keptNote } from "./kept.js";
import { propose } from "./propose.js";
import { at, buildPage, bytes, environmentPage } from "./words.js";

const query = new URLSearchParams(window.location.search);
const origin = byId("origin");
const source = byId("origin-source");
const go = byId("make-go");
const draft = byId("make-draft");
let saved = null; // the version that this page has already saved
const editor = new Editor({ key: "new", onState: ready });

function ready({ definition }) {
  const container = (editor.definition ?? editor.form.value).kind === "container";
  const built = container && Boolean((editor.definition ?? editor.form.value).source);
  setText(go, built || !container ? (container ? "Build" : "Test") : "Test");
  go.disabled = draft.disabled = definition === null;
}

// Fills the fields that the user has not edited.
function fit(found) {
  const values = editor.form.value;
  const before = propose(values.source ?? "") ?? {};
  for (const [name, value] of Object.entries(found)) {
    const there = values[name];
    if (!there || JSON.stringify(there) === JSON.stringify(before[name])) values[name] = value;
  }
  return values;
}

let looked = 0;
async function look() {
  const text = source.value.trim();
  setText(byId("origin-problem"), "");
  setText(byId("origin-words"), "");
  const found = propose(text);
  if (!found) {
    setText(byId("origin-problem"), text ? "Enter docker://REGISTRY/REPOSITORY:TAG, or the absolute path of a SIF file (.sif) or a definition file (.def)." : "Enter an image reference or a path.");
    source.focus();
    return;
  }
  looked += 1;
  const mine = looked;
  await editor.edit({ definition: { ...fit(found), kind: "container", source: text } });
  if (!text.startsWith("docker://")) return;
  setText(byId("origin-words"), "Querying the registry…");
  try {
    const image = await call("images/resolve", { method: "POST", body: { source: text } });
    if (mine !== looked) return;
    fill(byId("origin-words"), "Found in the registry: ", el("code.portal-path", image.digest), ` ${[image.architecture, bytes(image.size), image.created.slice(0, 10)].filter(Boolean).join(", ")}`);
  } catch (error) {
    if (mine !== looked) return;
    setText(byId("origin-words"), "");
    setText(byId("origin-problem"), error.message);
  }
}

origin.addEventListener("submit", (event) => {
  event.preventDefault();
  look();
});
source.addEventListener("paste", () => setTimeout(look, 0));

// Saves the draft once; later changes become the next version.
async function save() {
  /** @type {any} */
  const definition = await editor.validate();
  if (!definition) {
    setText(byId("make-problem"), "Fix the marked fields.");
    return null;
  }
  const comment = byId("comment").value.trim();
  const text = JSON.stringify(definition);
  if (saved?.text === text) return saved.version;
  const known = saved && saved.version.name === definition.name;
  const version = known
    ? await call(at(definition.name), { method: "PUT", body: { definition, base: saved.version.number, comment } })
    : await call("environments", { method: "POST", body: { definition, comment } });
  saved = { text, version };
  return version;
}

async function make(run) {
  setText(byId("make-problem"), "");
  go.disabled = draft.disabled = true;
  try {
    const version = await save();
    if (version) await run(version);
  } catch (error) {
    setText(byId("make-problem"), error.message);
  } finally {
    go.disabled = draft.disabled = false;
  }
}

function leave(address) {
  editor.done();
  window.location.assign(address);
}

byId("make").addEventListener("submit", (event) => {
  event.preventDefault();
  make(async ({ name, number, environment }) => {
    if (environment.kind === "container" && environment.source) {
      const build = await call(at(name, "versions", number, "build"), { method: "POST", body: {} });
      leave(buildPage(build.id));
      return;
    }
    await call(at(name, "versions", number, "test"), { method: "POST", body: {} });
    leave(environmentPage(name));
  });
});
draft.addEventListener("click", () => make(({ name }) => leave(environmentPage(name))));

async function begin() {
  const kept = editor.draft.value;
  await editor.open({ definition: { kind: "container" } });
  if (!editor.changed) {
    byId("editor-status").textContent = "";
    editor.form.show([]);
    fill(byId("editor-problems"));
  }
  const wanted = query.get("source");
  if (query.get("request")) fill(byId("troubles"), el("p.alert.alert-info.trouble", `For request ${query.get("request")}. Answer the request on the Curate page after publishing the environment.`));
  if (wanted && !kept) {
    source.value = wanted;
    await look();
  } else if (kept) {
    fill(byId("troubles"), keptNote(editor, kept));
  }
}

begin();
