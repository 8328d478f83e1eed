// Smoke tests: results by GPU type and kernel, with logs.

import { call } from "../api.js";
import { differs, el, empty, fill } from "../dom.js";
import { facts as factList } from "../panel.js";
import { pill } from "../status.js";
import { count, short } from "../words.js";
import { LogBox, Work } from "./log.js";
import { at, gpuWords, isLive, when, workState } from "./words.js";

// Cards of tests (EnvironmentTest); open logs stay open on updates.
export class TestCards {
  constructor(place) {
    this.place = place;
    this.cards = new Map();
  }

  show(tests, otherwise) {
    if (!tests.length) {
      this.cards.clear();
      fill(this.place, empty(otherwise));
      return;
    }
    const shown = new Map();
    for (const test of tests) {
      const card = this.cards.get(test.id) ?? new TestCard(test);
      card.show(test);
      shown.set(test.id, card);
    }
    const same = shown.size === this.cards.size && [...shown.keys()].every((id) => this.cards.has(id)) && this.list?.isConnected;
    for (const [id, card] of this.cards) if (!shown.has(id)) card.close();
    this.cards = shown;
    if (same) return;
    this.list = el("ul.entries", [...shown.values()].map((card) => card.element));
    fill(this.place, this.list);
  }
}

class TestCard {
  constructor(test) {
    this.id = test.id;
    this.body = el("div.test-body");
    this.log = el("div");
    this.details = el("details", el("summary", "Test log"), this.log);
    this.details.addEventListener("toggle", () => (this.details.open ? this.#open() : this.close()));
    this.element = el("li.entry.test", { dataset: { test: test.id } }, el("div", this.body, this.details));
  }

  show(test) {
    if (!differs(this, test)) return;
    const result = test.result ?? {};
    const failed = test.state === "failed" || test.state === "unknown";
    fill(
      this.body,
      el(
        "p.portal-facts",
        el("strong", gpuWords(test.gpu_type)),
        workState(test.state),
        test.number ? el("span", `version ${test.number}`) : null,
        result.simulated ? el("span.badge.portal-simulated", "simulated GPUs") : null,
        isLive(test) && test.step ? el("span", test.step) : null,
        el("span", when(test.ended_at ?? test.started_at ?? test.asked_at)),
        test.job_id ? el("span", `job ${test.job_id}`) : null,
      ),
      test.message ? el(`p.why${failed ? ".form-problem" : ""}`, test.message) : null,
      kernels(result.kernels),
      found(result),
    );
  }

  close() {
    this.work?.stop();
    this.work = null;
  }

  #open() {
    const log = new LogBox(this.log, { path: `environment-tests/${this.id}/log`, title: "Log", id: `test-log-${this.id}` });
    this.work = new Work({ kind: "environment-tests", id: this.id, log, onState: (test) => this.show(test), onTrouble: (words) => words && log.say(words) });
    this.work.start();
  }
}

function kernels(results) {
  if (!results?.length) return null;
  return el(
    "ul.kernels",
    { "aria-label": "Kernels" },
    results.map(({ kernel, passed, seconds, version, reason }) =>
      el(
        "li",
        pill(passed ? "passed" : "failed", `${kernel.title} ${passed ? "answers" : "does not answer"}`),
        el("span.portal-quiet", [version, passed && seconds ? `${short(seconds)} s` : ""].filter(Boolean).map((words) => ` ${words}`).join(",")),
        reason ? el("p.why", reason) : null,
      ),
    ),
  );
}

function found(result) {
  const versions = Object.entries(result.facts?.versions ?? {}).map(([name, version]) => `${name} ${version}`);
  const rows = [
    result.server_seconds !== undefined ? ["Server", `${result.server === "beside" ? "beside the container" : "in the container"}, ready after ${short(result.server_seconds)} s`] : null,
    result.gpus ? ["GPUs detected", String(result.gpus)] : null,
    versions.length ? ["Versions", versions.join(", ")] : null,
    result.facts?.distribution ? ["System", result.facts.distribution] : null,
    result.facts?.packages?.length ? ["Packages", count(result.facts.packages.length, "package")] : null,
  ];
  return rows.some(Boolean) ? factList(rows) : null;
}

// The newest tests of a version, one per GPU type; the test without GPUs comes first.
export const testsOf = async (name, number) => (await call(at(name, "versions", number, "tests"))).items;
