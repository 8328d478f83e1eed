// The editor of an environment: saving creates the next version; a version that another user saved in
// the meantime is shown as a conflict.

import { call } from "../api.js";
import { tell } from "../dialog.js";
import { byId, fill, setText, showTrouble } from "../dom.js";
import { conflict } from "./conflict.js";
import { Editor } from "./editor.js";
import { name, poller } from "./environment.js";
import { sends } from "../forms.js";
import { keptNote } from "./kept.js";
import { at } from "./words.js";

const save = byId("save");
const editor = new Editor({ key: name, fixed: ["name"], onState: ready });
let base = null; // number of the edited version

const newest = async () => (await call(at(name, "versions"), { query: { limit: 1 } })).items[0];

function ready({ definition, changed }) {
  save.querySelector("button").disabled = definition === null || !changed;
  byId("save-not").disabled = !changed;
}

async function open(version) {
  base = version.number;
  const kept = editor.draft.value;
  setText(byId("edit-words"), `Based on version ${base}.`);
  await stand(version);
  byId("kept").hidden = !kept;
  if (kept) fill(byId("kept"), keptNote(editor, kept, () => byId("kept").replaceChildren()));
}

const textOf = (version) => call(at(name, "versions", version.number, "text"));

// Shows the version in the editor as it is saved.
async function stand(version) {
  await editor.open({ text: (await textOf(version)).text }, version.environment);
}

// Starts from an older version, whose number is in the URL; it is saved after the newest one.
async function from(number) {
  const { text } = await call(at(name, "versions", number, "text"));
  setText(byId("edit-words"), `Content of version ${number}. It is saved as the version after ${base}.`);
  await editor.edit({ text });
  await editor.turn("form");
  editor.form.focus("title");
}

async function send() {
  const definition = await editor.validate();
  if (!definition) throw new Error("Fix the marked fields.");
  try {
    const version = await call(at(name), { method: "PUT", body: { definition, base, comment: byId("comment").value.trim() } });
    base = version.number;
    editor.done();
    byId("comment").value = "";
    setText(byId("edit-words"), `Based on version ${base}.`);
    await tell(() => `Version ${base} is saved. ${version.state === "draft" ? "Build or test it, then publish it." : ""}`.trim());
    await poller.now();
  } catch (error) {
    if (error.status !== 409) throw error;
    await conflict(name, editor.text.value, resolve);
  }
}
sends(save, byId("save-problem"), send, { settled: () => (save.querySelector("button").disabled = !editor.definition || !editor.changed) });

async function resolve(which, theirs) {
  base = theirs.number;
  setText(byId("edit-words"), `Based on version ${base}.`);
  if (which === "mine") {
    save.requestSubmit();
    return;
  }
  if (which === "theirs") {
    const mine = { ...editor.content, at: Date.now() / 1000 };
    await stand(theirs);
    byId("kept").hidden = false;
    fill(byId("kept"), keptNote(editor, mine, () => byId("kept").replaceChildren()));
    return;
  }
  // Merge by hand: theirs is shown above; mine is in the editor and is saved after theirs.
  editor.turnTo("text");
  editor.text.area.focus();
}

byId("save-not").addEventListener("click", async () => {
  editor.draft.forget();
  await open(await newest());
});

// What is typed before the version is there would be lost.
const form = document.querySelector(".editor");
form.hidden = true;
try {
  const version = await newest();
  const asked = new URLSearchParams(window.location.search).get("from");
  await open(version);
  form.hidden = false;
  if (asked && Number(asked) !== version.number && !editor.draft.value) await from(asked);
} catch (error) {
  showTrouble(error);
}
