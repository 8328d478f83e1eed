// One environment for those who curate: its state and verbs, tests, versions, and the editor.

import { call, facts } from "../api.js";
import { tell } from "../dialog.js";
import { byId, el, fill, setText, showTrouble } from "../dom.js";
import { facts as factList } from "../panel.js";
import { Poller } from "../poller.js";
import { conflict } from "./conflict.js";
import { Editor } from "./editor.js";
import { keptNote } from "./kept.js";
import { verb } from "./publish.js";
import { TestCards, testsOf } from "./tests.js";
import { Versions } from "./versions.js";
import { at, gpuWords, isLive, launchPage, versionState, when } from "./words.js";

const EVERY = 4000;
const main = byId("environment");
const { name } = main.dataset;
const cards = new TestCards(byId("tests"));
const save = byId("save");
const editor = new Editor({ key: name, fixed: ["name"], onState: ready });
const versions = new Versions(name, { onEdit: from, onChange: () => poller.now() });
let base = null; // the number of the version that is edited
const poller = new Poller({ every: 5 * EVERY, ask: load, onTrouble: showTrouble });

async function load() {
  const item = await call(at(name));
  versions.current = item.number ?? null;
  await versions.load();
  show(item);
  const tests = await lastTests();
  cards.show(tests, "It was not tested yet.");
  showTrouble(null);
  if (base === null) await open(versions.newest);
  const live = tests.some(isLive) || versions.items.some((one) => one.state === "building" || one.state === "testing");
  return live ? EVERY : 5 * EVERY;
}

// Those of the newest version; before it has any, those of what is published.
async function lastTests() {
  const numbers = [...new Set([versions.newest?.number, versions.current])].filter(Boolean);
  for (const number of numbers) {
    const found = await testsOf(name, number);
    setText(byId("tests-words"), found.length ? `of version ${number}` : "");
    if (found.length) return found;
  }
  return [];
}

let shown = "";
function show(item) {
  const text = JSON.stringify([item, versions.current]);
  if (text === shown) return;
  shown = text;
  main.removeAttribute("aria-busy");
  const { title, state } = item;
  const focused = main.contains(document.activeElement) ? document.activeElement.textContent : null;
  fill(
    main,
    el("div.board-head", {}, el("h1", {}, title), el("div.entry-actions", {}, verbs(item, state))),
    el(
      "p.portal-facts.session-state",
      {},
      versionState(state),
      versions.current === null ? el("span", {}, "not published yet") : item.offered ? null : el("span", {}, "not offered"),
      el("code", {}, name),
      item.sessions_now ? el("span", {}, `${item.sessions_now} running now`) : null,
    ),
    item.reason || item.message ? el("div.alert.alert-secondary.ending", {}, item.reason || item.message) : null,
    factList([
      item.digest ? ["Digest", el("code.portal-path", {}, item.digest)] : null,
      item.kernels?.length ? ["Kernels", item.kernels.map((kernel) => kernel.title).join(", ")] : null,
      item.gpu_types?.length ? ["GPU types", item.gpu_types.map(gpuWords).join(", ")] : null,
      ["Seen by", item.groups?.length || item.courses?.length ? [...(item.groups ?? []), ...(item.courses ?? [])].join(", ") : "everyone"],
      item.tested_at ? ["Tested", when(item.tested_at)] : null,
    ]),
  );
  if (focused) [...main.querySelectorAll("a, button")].find((one) => one.textContent === focused)?.focus();
}

function verbs(item, state) {
  if (versions.current === null) return [];
  const button = (words, run, danger = false) => el(`button.btn.btn-sm.${danger ? "btn-outline-danger.portal-danger" : "btn-outline-contrast"}`, { type: "button", onclick: run }, words);
  const then = async (promise) => (await promise) && poller.now();
  const message = (label) => ({ label, required: true, maxlength: 1000, rows: 3, value: item.message ?? "" });
  const buttons = [button("Test again", testAgain)];
  if (state === "deprecated" || state === "withdrawn") {
    buttons.push(button("Offer it again", () => then(verb(name, ["offer-again"], { title: `Offer ${item.title} again?`, text: "", action: "Offer it again", said: "It is offered again." }))));
  }
  if (state !== "deprecated" && state !== "withdrawn") {
    buttons.push(
      button("Deprecate", () =>
        then(verb(name, ["deprecate"], { title: `Deprecate ${item.title}?`, text: "People still can launch it, and see your message.", action: "Deprecate", field: message("What people should know, e.g. what to use instead"), body: (text) => ({ message: text }), said: "It is deprecated." })),
      ),
    );
  }
  if (state !== "withdrawn") {
    buttons.push(
      button("Withdraw", () => then(verb(name, ["withdraw"], { title: `Withdraw ${item.title}?`, text: "Nobody can launch it any more. Running sessions stay.", action: "Withdraw", danger: true, field: message("Why it is withdrawn"), body: (text) => ({ message: text }), said: "It is withdrawn." })), true),
    );
  }
  return [el("a.btn.btn-sm.btn-outline-contrast", { href: `${facts.prefix}catalog/${encodeURIComponent(name)}` }, "As people see it"), el("a.btn.btn-sm.btn-outline-contrast", { href: launchPage(name) }, "Launch"), ...buttons];
}

async function testAgain() {
  await tell(async () => {
    await call(at(name, "test"), { method: "POST", body: { gpu_types: null } });
    return "The tests are under way.";
  });
  poller.now();
}

// -- the editor ------------------------------------------------------------------------------------

function ready({ definition, changed }) {
  save.querySelector("button").disabled = definition === null || !changed;
  byId("save-not").disabled = !changed;
}

async function open(version) {
  base = version.number;
  const kept = editor.draft.value;
  setText(byId("edit-words"), `From version ${base}.`);
  await stand(version);
  byId("kept").hidden = !kept;
  if (kept) fill(byId("kept"), keptNote(editor, kept, () => byId("kept").replaceChildren()));
}

const textOf = (version) => call(at(name, "versions", version.number, "text"));

// The version stands in the editor as it is saved.
async function stand(version) {
  await editor.open({ text: (await textOf(version)).text }, version.environment);
}

async function from(version) {
  if (editor.changed && !window.confirm("Drop what you have changed and go on from this version?")) return;
  editor.draft.forget();
  base = versions.newest.number;
  setText(byId("edit-words"), `As version ${version.number} was; saved after version ${base}.`);
  if (version.number === base) await stand(version);
  else {
    await editor.edit({ text: (await textOf(version)).text });
    await editor.turn("form");
  }
  byId("edit-title").scrollIntoView();
  editor.form.focus("title");
}

save.addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = byId("save-problem");
  setText(problem, "");
  const button = save.querySelector("button");
  button.disabled = true;
  const definition = await editor.validate();
  if (!definition) {
    setText(problem, "Something is wrong above; it says where.");
    return;
  }
  try {
    const version = await call(at(name), { method: "PUT", body: { definition, base, comment: byId("comment").value.trim() } });
    base = version.number;
    editor.done();
    byId("comment").value = "";
    setText(byId("edit-words"), `From version ${base}.`);
    await tell(() => `Version ${base} is saved. ${version.state === "draft" ? "Build or test it, then publish it." : ""}`.trim());
    await poller.now();
  } catch (error) {
    if (error.status === 409) await conflict(name, editor.text.value, resolve);
    else setText(problem, error.message);
    button.disabled = false;
  }
});

async function resolve(which, theirs) {
  base = theirs.number;
  setText(byId("edit-words"), `From version ${base}.`);
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
  // By hand: theirs stands above, mine is in the editor, and is saved after theirs.
  editor.turnTo("text");
  editor.text.area.focus();
}

byId("save-not").addEventListener("click", () => {
  editor.draft.forget();
  open(versions.newest);
});

poller.now();
