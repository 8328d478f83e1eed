// One build: its steps and log, then the tests and publishing.

import { call } from "../api.js";
import { confirmed, tell } from "../dialog.js";
import { DANGER, MAIN, announce, button, byId, differs, el, fill, setText, trouble } from "../dom.js";
import { menu } from "../menu.js";
import { facts as factList } from "../panel.js";
import { Poller } from "../poller.js";
import { exactly } from "../words.js";
import { LogBox, Work } from "./log.js";
import { publishing, tryIt } from "./publish.js";
import { stepper } from "./stepper.js";
import { Steps } from "./steps.js";
import { TestCards, testsOf } from "./tests.js";
import { buildPage, bytes, environmentPage, gpuWords, isLive, workState } from "./words.js";

const EVERY = 2500;
const main = byId("build");
const id = main.dataset.id;
const steps = new Steps(byId("steps"));
const cards = new TestCards(byId("tests"));
const log = new LogBox(byId("log-part"), { path: `builds/${id}/log`, title: "Log", id: "log", level: "h2" });
let last = null;
let version = null; // the newest version that this build is for
const followed = new Poller({ every: EVERY, ask: follow, onTrouble: (error) => setText(byId("tests-words"), error.message) });

const work = new Work({
  kind: "builds",
  id,
  log,
  onState: show,
  onTrouble: (words) => fill(byId("troubles"), words ? trouble(words) : null),
});

function show(build) {
  if (last && last.state !== build.state) announce(`Build ${id}: ${build.state}.`);
  last = build;
  main.removeAttribute("aria-busy");
  const { result } = build;
  const failed = build.state === "failed" || build.state === "unknown";
  fill(
    main,
    el("p.portal-facts.session-state", workState(build.state)),
    build.message ? el(`div.alert.${failed ? "alert-danger" : "alert-secondary"}.ending`, failed ? { role: "alert" } : {}, build.message) : null,
    factList([
      version ? ["Environment", el("a", { href: environmentPage(version.name) }, `${version.environment?.title ?? version.name}, version ${version.number}`)] : null,
      ["Source", el("span.portal-path", build.source)],
      build.digest ? ["Digest", el("code.portal-path", build.digest)] : null,
      ["Requested by", build.askers.join(", ")],
      build.job_id ? ["Slurm job", build.job_id] : null,
      ["Requested", exactly(build.asked_at)],
      build.ended_at ? ["Ended", exactly(build.ended_at)] : null,
      result ? ["Image", el("span.portal-path", `${result.image} (${bytes(result.size)}${result.signed ? ", signed" : ""})`)] : null,
      result?.kernels?.length ? ["Kernels", result.kernels.map((kernel) => kernel.title).join(", ")] : null,
      result ? ["Server", result.server === "beside" ? "beside the container" : "in the container"] : null,
    ]),
  );
  steps.show(build);
  actions(build);
  byId("after").hidden = build.state !== "passed";
  if (build.state === "passed" || !version) followed.now();
}

function actions(build) {
  const what = isLive(build) ? "cancel" : build.state === "passed" ? "" : "retry";
  const place = byId("actions");
  if (!differs(place, what)) return;
  fill(place, what && (what === "cancel" ? button("Cancel build…", cancel, DANGER, { id: what }) : button("Build again", retry, MAIN, { id: what })));
}

async function cancel() {
  const text = last.askers.length > 1 ? `${last.askers.join(", ")} requested this build. It is cancelled for all of them.` : "The Slurm job is cancelled. Data that was pulled stays in the cache.";
  const question = { title: "Cancel this build?", text, action: "Cancel build", danger: true, keep: "Continue building" };
  await confirmed(question, () => call(`builds/${id}/cancel`, { method: "POST", body: {} }), "The build is being cancelled.");
}

async function retry() {
  await tell(async () => {
    const next = await call(`builds/${id}/retry`, { method: "POST", body: {} });
    if (next?.id && String(next.id) !== id) {
      window.location.assign(buildPage(next.id));
      return "";
    }
    differs(byId("actions"), ""); // the next state has its own
    fill(byId("actions"));
    work.start();
    return "The build starts again and reuses the data that was pulled.";
  });
}

// The version and its tests, until both have finished.
async function follow() {
  const { items } = await call(`builds/${id}/versions`);
  const newer = items.at(-1) ?? null;
  const fresh = JSON.stringify(newer) !== JSON.stringify(version);
  version = newer;
  fill(byId("stepper"), version && last ? stepper(version, last) : null);
  if (fresh && last) show(last);
  if (!version || last?.state !== "passed") return null;
  const mine = await testsOf(version.name, version.number);
  cards.show(mine, version.state === "testing" || version.state === "building" ? "The tests start soon." : "Not tested.");
  tested(mine);
  return ["building", "testing"].includes(version.state) || mine.some(isLive) ? EVERY : null;
}

function tested(tests) {
  const { state, message, name, number, environment } = version;
  const bad = tests.filter((test) => test.state === "failed").map((test) => gpuWords(test.gpu_type));
  const words = {
    building: "The tests start when the build is recorded.",
    testing: "The tests run in Slurm, one for each GPU type.",
    ready: bad.length ? `The tests passed, except on ${bad.join(", ")}: this version is not offered there.` : "All tests passed.",
    failed: message || "The tests failed. This version cannot be published.",
  };
  setText(byId("tests-words"), words[state] ?? state);
  if (!differs(byId("next"), [name, number, state, version.published_at])) return;
  if (state !== "ready") {
    fill(byId("next"), state === "failed" ? el("a.btn.btn-outline-contrast", { href: environmentPage(name) }, "View environment") : null);
    fill(byId("publish"));
    return;
  }
  const open = el("button.btn.btn-jupyter", { type: "button", "aria-expanded": "false", onclick: () => publish(open, environment) }, version.published_at ? "Publish again" : "Publish");
  fill(byId("next"), open, el("button.btn.btn-outline-contrast", { type: "button", onclick: () => tryIt(name, number) }, "Launch preview"), menu(`version ${number}`, el("a", { href: environmentPage(name) }, "View environment")));
  announce("The tests passed.");
}

function publish(opener, environment) {
  const { name, number } = version;
  opener.setAttribute("aria-expanded", "true");
  opener.classList.replace("btn-jupyter", "btn-outline-contrast"); // the form's button is the main one now
  const form = publishing({ name, number, environment }, () => window.location.assign(environmentPage(name)));
  fill(byId("publish"), form);
  form.querySelector("input").focus();
}

window.addEventListener("pagehide", () => work.stop());
window.addEventListener("pageshow", (event) => event.persisted && work.start());
work.start();
