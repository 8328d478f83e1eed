// One model that answers: its state, who may use it, and for its owner versions, replicas and figures.

import { call, facts } from "../api.js";
import { copies } from "../copy.js";
import { confirmed } from "../dialog.js";
import { button, byId, differs, el, fill, setText, showTrouble } from "../dom.js";
import { menu } from "../menu.js";
import { facts as factList } from "../panel.js";
import { Poller } from "../poller.js";
import { clock, count, duration } from "../words.js";
import { FiguresOverTime } from "./figures.js";
import { Replicas } from "./replicas.js";
import { serve } from "./serve.js";
import { change } from "./settings.js";
import { showTrial } from "./trial.js";
import { Versions } from "./versions.js";
import { audience, pathOf, stateOf, statePill } from "./words.js";

const EVERY = 3000;
const main = byId("model");
const { name, whole, own, usable, stops } = JSON.parse(main.dataset.facts);
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });
const versions = whole ? new Versions(own, () => poller.now()) : null;
const replicas = whole ? new Replicas() : null;
const figures = whole ? new FiguresOverTime(name) : null;
let project = ""; // for which it is served
let asked = ""; // the versions with which the form of a trial was made

async function load() {
  /** @type {any} */
  const model = whole ? await call(pathOf(name)) : await used();
  show(model);
  showTrouble(null);
  if (whole) {
    project = model.project;
    versions.show(model);
    replicas.show(model);
    figures.show(model).catch(() => setText(byId("figures-words"), "The figures could not be loaded."));
  }
  const shares = whole ? JSON.stringify(model.versions.map(({ number, share }) => [number, share])) : "used";
  if (shares === asked) return;
  asked = shares;
  await showTrial(name, usable);
}

// What those see who may only use it.
async function used() {
  const { items } = await call("models");
  return items.find((item) => item.name === name) ?? { name, owner: "", address: "", state: "empty", problem: "You may not use this model any more." };
}

function show(model) {
  const state = whole ? stateOf(model) : model.state;
  const { expected_at: expected, problem } = model;
  if (!differs(main, [state, model, expected === null ? null : Math.round(expected / 60)])) return;
  main.removeAttribute("aria-busy");
  const url = `${window.location.origin}${model.address}`;
  const copy = button("Copy", () => {});
  copies(copy, url, "Address copied.");
  const focused = main.contains(document.activeElement) ? document.activeElement.textContent : null;
  fill(
    main,
    el("div.page-title", el("h1", name), el("div.page-actions", actions(model, state))),
    el(
      "p.portal-facts",
      statePill(state),
      el("span", model.owner === facts.user ? "yours" : `by ${model.owner}`),
      expected ? el("span", `answers about ${clock(expected)}`) : null,
    ),
    problem ? el("div.alert.alert-warning", problem) : null,
    el("div.model-facts", factList([["Address", [el("code.model-wide", url), " ", copy]], ...(whole ? details(model) : [])])),
  );
  if (focused) [...main.querySelectorAll("button")].find((item) => item.textContent === focused)?.focus();
}

/** @param {any} model */
const details = ({ least, most, target, idle, limits, load, wait, ...model }) => [
  model.project ? ["Project", el("a", { href: `${facts.prefix}projects/${model.project}` }, model.project)] : null,
  ["Who may use it", audience(model)],
  ["Replicas", `${least === most ? least : `${least} to ${most}`}, one for each ${count(target, "request")} at a time`],
  least ? null : ["Sleeps", `after ${duration(idle)} without a request`],
  ["A successor starts", `${duration(load)} for loading and ${duration(wait)} for the queue before a job ends`],
  ["Limits", `${count(limits.body / 1048576, "MB", "MB")} and ${duration(limits.seconds)} a request; ${duration(limits.wake)} for a replica, ${limits.waiting} may wait`],
];

function actions(model, state) {
  if (!whole) return [];
  const asleep = own && (state === "asleep" || state === "failed") && model.versions.some(({ share }) => share);
  const more = [
    own ? button("Change settings…", () => change(model, () => poller.now())) : null,
    stops ? button("Delete model…", () => remove(model), "outline-danger.portal-danger") : null,
  ];
  return [asleep ? button("Wake it", () => wake(model), "jupyter") : null, menu(name, ...more)];
}

// The same shares again have a replica launched, and versions tried that had failed.
async function wake(model) {
  const shares = Object.fromEntries(model.versions.filter(({ share }) => share).map(({ number, share }) => [number, share]));
  const request = () => call(/** @type {`models/${string}/shares`} */ (`${pathOf(name)}/shares`), { method: "PUT", body: { shares } });
  await confirmed({ title: `Wake “${name}”?`, text: "A replica is launched, and sleeps again after its idle time without a request.", action: "Wake it" }, request, "A replica is being launched.");
  poller.now();
}

async function remove(model) {
  const field = own ? null : { label: "Reason, for the audit log", required: true };
  const question = { title: `Delete “${name}”?`, text: "Its address stops to answer, its replicas end, and its versions are gone. Files stay.", action: "Delete model", danger: true, field };
  const done = await confirmed(question, (reason) => call(pathOf(model.name), { method: "DELETE", query: { reason } }));
  if (done) window.location.assign(`${facts.prefix}endpoints`);
}

byId("add-version")?.addEventListener("click", () => serve({ into: name, project }));
poller.now();
