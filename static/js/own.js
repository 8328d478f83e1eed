// One's own environments: registering, how the tests go with their logs, and removing.

import { call, facts } from "./api.js";
import { TestCards } from "./curate/tests.js";
import { ask, tell } from "./dialog.js";
import { byId, el, fill, setText, showTrouble } from "./dom.js";
import { Poller } from "./poller.js";
import { capital, count } from "./words.js";

const EVERY = { testing: 2000, still: 15000 };
const STATES = { testing: "is being tested", ready: "ready", failed: "cannot be launched" };
const SIGNS = { testing: "waits", ready: "runs", failed: "bad" };
const form = byId("own-form");
const shown = new Map(); // by name: the entry of each
const poller = new Poller({ every: EVERY.still, ask: list, onTrouble: trouble });

class Entry {
  constructor(name) {
    this.name = name;
    this.head = el("div");
    this.tests = el("div");
    this.cards = new TestCards(this.tests);
    this.element = el("li.entry", { dataset: { environment: name } }, el("div", {}, this.head, this.tests));
  }

  show(one) {
    const { tests, ...rest } = one;
    const text = JSON.stringify(rest);
    if (text !== this.text) {
      this.text = text;
      this.#head(one);
    }
    this.cards.show(tests, "Its test has not begun yet.");
  }

  #head(one) {
    const button = (label, act) =>
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: act }, label, el("span.visually-hidden", {}, ` ${one.title}`));
    fill(
      this.head,
      el("h3", {}, el("a", { href: `${facts.prefix}catalog/environments/${one.name}` }, one.title)),
      el("p.portal-facts", {}, el(`span.state.state-${SIGNS[one.state]}`, {}, capital(STATES[one.state])), el("span.portal-path", {}, one.path)),
      one.reason && one.state === "failed" ? el("p.why", {}, one.reason) : null,
      el(
        "div.entry-actions",
        {},
        one.state === "ready"
          ? el("a.btn.btn-sm.btn-jupyter", { href: `${facts.hub}spawn?opt-environment=${encodeURIComponent(one.name)}` }, "Launch", el("span.visually-hidden", {}, ` ${one.title}`))
          : null,
        one.state === "testing" ? null : button("Test again", () => this.#test(one)),
        button("Remove…", () => this.#remove(one)),
      ),
    );
  }

  async #test(one) {
    await tell(async () => {
      await call(`own-environments/${one.name}/test`, { method: "POST", body: {} });
      return `${one.title} is tested again.`;
    });
    poller.now();
  }

  async #remove(one) {
    const text = "It is no longer offered to you. Its files stay, and sessions that run in it go on.";
    if ((await ask({ title: `Remove ${one.title}?`, text, action: "Remove", danger: true })) === null) return;
    await tell(async () => {
      await call(`own-environments/${one.name}`, { method: "DELETE" });
      return `${one.title} is removed.`;
    });
    poller.now();
  }
}

async function list() {
  const { items, most } = await call("own-environments");
  const names = new Set(items.map((one) => one.name));
  for (const [name, entry] of shown) {
    if (names.has(name)) continue;
    entry.cards.show([], "");
    entry.element.remove();
    shown.delete(name);
  }
  for (const one of items) {
    if (!shown.has(one.name)) {
      shown.set(one.name, new Entry(one.name));
      byId("own-list").append(shown.get(one.name).element);
    }
    shown.get(one.name).show(one);
  }
  setText(byId("own-count"), items.length ? `${count(items.length, "environment")} of at most ${most}` : "");
  byId("own-empty").hidden = items.length > 0;
  trouble(null);
  return items.some((one) => one.state === "testing") ? EVERY.testing : EVERY.still;
}

function trouble(error) {
  showTrouble(error);
  byId("own-list").removeAttribute("aria-busy");
}

if (form) {
  const { kind } = form.elements;
  const fit = () => {
    byId("own-server-field").hidden = kind.value !== "container";
  };
  kind.addEventListener("change", fit);
  fit();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = byId("own-problem");
    setText(problem, "");
    const missing = ["title", "path"].map((name) => form.elements[name]).find((field) => !field.value.trim());
    if (missing) {
      setText(problem, missing.name === "title" ? "Give it a title." : "Say where it is: an absolute path.");
      missing.focus();
      return;
    }
    const body = Object.fromEntries([...new FormData(form)].map(([name, text]) => [name, String(text).trim()]));
    if (body.kind !== "container") delete body.server;
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const made = await call("own-environments", { method: "POST", body });
      form.reset();
      fit();
      await poller.now();
      document.querySelector(`[data-environment="${CSS.escape(made.name)}"] a`)?.focus();
    } catch (error) {
      setText(problem, error.message);
    }
    button.disabled = false;
  });
}

poller.now();
