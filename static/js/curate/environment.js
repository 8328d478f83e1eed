// An environment for curators: its state and actions on all tabs; its facts, tests and versions.

import { call, facts } from "../api.js";
import { perform } from "../dialog.js";
import { byId, differs, el, fill, repaint, setText, showTrouble } from "../dom.js";
import { menu } from "../menu.js";
import { facts as factList } from "../panel.js";
import { Poller } from "../poller.js";
import { count } from "../words.js";
import { visibleTo } from "./audience.js";
import { verb } from "./publish.js";
import { stepper } from "./stepper.js";
import { TestCards, testsOf } from "./tests.js";
import { Versions } from "./versions.js";
import { at, editPage, gpuWords, isLive, launchPage, versionState, when } from "./words.js";

const EVERY = 4000;
const main = byId("environment");
export const { name } = main.dataset;
const cards = byId("tests") ? new TestCards(byId("tests")) : null;
const versions = byId("versions") ? new Versions(name, { onEdit, onChange: () => poller.now() }) : null;
let current = null; // number of the published version
export const poller = new Poller({ every: 5 * EVERY, ask: load, onTrouble: showTrouble });

async function load() {
  const item = await call(at(name));
  current = item.number ?? null;
  let live = item.state === "building" || item.state === "testing";
  if (versions) {
    versions.current = current;
    await versions.load();
    live ||= versions.items.some((version) => version.state === "building" || version.state === "testing");
  }
  const newest = versions && !versions.pager ? versions.items[0] : (await call(at(name, "versions"), { query: { limit: 1 } })).items[0];
  show(item, newest);
  if (cards) {
    const tests = await lastTests(newest);
    cards.show(tests, "Not tested yet.");
    live ||= tests.some(isLive);
  }
  showTrouble(null);
  return live ? EVERY : 5 * EVERY;
}

function onEdit(version) {
  window.location.assign(`${editPage(name)}?from=${version.number}`);
}

// The tests of the newest version, or of the published one if the newest has none.
async function lastTests(newest) {
  const numbers = [...new Set([newest?.number, current])].filter(Boolean);
  for (const number of numbers) {
    const tests = await testsOf(name, number);
    setText(byId("tests-words"), tests.length ? `of version ${number}` : "");
    if (tests.length) return tests;
  }
  return [];
}

function show(item, newest) {
  if (!differs(main, [item, current, newest])) return;
  main.removeAttribute("aria-busy");
  repaint(main, () => fill(main, headOf(item, newest)));
  if (byId("environment-facts")) fill(byId("environment-facts"), factsOf(item));
}

function headOf(item, newest) {
  const { title, state } = item;
  return [
    el("div.page-title", el("h1", title), el("div.entry-actions", verbs(item, state))),
    el(
      "p.portal-facts.session-state",
      versionState(state),
      current === null ? el("span", "not published yet") : item.offered ? null : el("span", "not offered"),
      el("code", name),
      item.sessions_now ? el("span", `${count(item.sessions_now, "session")} running now`) : null,
    ),
    newest ? el("div.stepper-line", el("span.portal-quiet", `Version ${newest.number}`), stepper(newest)) : null,
    item.reason || item.message ? el("div.alert.alert-secondary.ending", item.reason || item.message) : null,
  ];
}

function factsOf(item) {
  return factList([
      item.digest ? ["Digest", el("code.portal-path", item.digest)] : null,
      item.kernels?.length ? ["Kernels", item.kernels.map((kernel) => kernel.title).join(", ")] : null,
      item.gpu_types?.length ? ["GPU types", item.gpu_types.map(gpuWords).join(", ")] : null,
      ["Visible to", visibleTo(item)],
      item.tested_at ? ["Tested", when(item.tested_at)] : null,
    ]);
}

function verbs(item, state) {
  if (current === null) return [];
  const button = (words, run, danger = false) => el(`button${danger ? ".portal-danger" : ""}`, { type: "button", onclick: run }, words);
  const then = async (promise) => (await promise) && poller.now();
  const message = (label) => ({ label, required: true, maxlength: 1000, rows: 3, value: item.message ?? "" });
  const buttons = [button("Test again", testAgain)];
  if (state === "deprecated" || state === "withdrawn") {
    buttons.push(button("Offer again…", () => then(verb(name, ["offer-again"], { title: `Offer ${item.title} again?`, text: "", action: "Offer again", said: `${item.title} is offered again.` }))));
  } else {
    buttons.push(
      button("Deprecate…", () =>
        then(verb(name, ["deprecate"], { title: `Deprecate ${item.title}?`, text: "Users can still launch it, and see your message.", action: "Deprecate", field: message("Message to users, e.g. what to use instead"), body: (text) => ({ message: text }), said: `${item.title} is deprecated.` })),
      ),
    );
  }
  if (state !== "withdrawn") {
    buttons.push(
      button("Withdraw…", () => then(verb(name, ["withdraw"], { title: `Withdraw ${item.title}?`, text: "Users can no longer launch it. Running sessions continue.", action: "Withdraw", danger: true, field: message("Reason"), body: (text) => ({ message: text }), said: `${item.title} is withdrawn.` })), true),
    );
  }
  const catalog = el("a", { href: `${facts.prefix}catalog/${encodeURIComponent(name)}` }, "View in catalog");
  return [el("a.btn.btn-sm.btn-outline-contrast", { href: launchPage(name) }, "Launch"), menu(item.title, catalog, ...buttons)];
}

async function testAgain() {
  await perform(call(at(name, "test"), { method: "POST", body: { gpu_types: null } }), "The tests are under way.");
  poller.now();
}

poller.now();
