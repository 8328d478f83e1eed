// The user's own environments: register, follow the tests and their logs, remove.

import { call, facts } from "./api.js";
import { TestCards } from "./curate/tests.js";
import { confirmed, perform } from "./dialog.js";
import { button, byId, differs, el, fill, hidden, setText, showTrouble } from "./dom.js";
import { sends, Wrong } from "./forms.js";
import { shortPath } from "./paths.js";
import { Poller } from "./poller.js";
import { pill } from "./status.js";
import { capital, count } from "./words.js";

const EVERY = { testing: 2000, still: 15000 };
const STATES = { testing: "being tested", ready: "ready", failed: "cannot be launched" };
const form = byId("own-form");
const shown = new Map(); // entries by name
const poller = new Poller({ every: EVERY.still, ask: list, onTrouble: trouble });

class Entry {
  constructor(name) {
    this.name = name;
    this.head = el("div");
    this.tests = el("div");
    this.cards = new TestCards(this.tests);
    this.element = el("li.entry", { dataset: { environment: name } }, el("div", this.head, this.tests));
  }

  show(environment) {
    const { tests, ...rest } = environment;
    if (differs(this, rest)) this.#head(environment);
    this.cards.show(tests, "The test has not started yet.");
  }

  #head(environment) {
    const { name, title, state, path, reason } = environment;
    const of = hidden(` ${title}`);
    const act = (label, onclick) => button([label, of.cloneNode(true)], onclick);
    fill(
      this.head,
      el("h3", el("a", { href: `${facts.prefix}catalog/environments/${name}` }, title)),
      el("p.portal-facts", pill(state, capital(STATES[state])), el("span.portal-path", shortPath(path, facts.user))),
      reason && state === "failed" ? el("p.why", reason) : null,
      el(
        "div.entry-actions",
        state === "ready"
          ? el("a.btn.btn-sm.btn-jupyter", { href: `${facts.hub}spawn?opt-environment=${encodeURIComponent(name)}` }, "Launch", of)
          : null,
        state === "testing" ? null : act("Test again", () => this.#test(environment)),
        act("Remove…", () => this.#remove(environment)),
      ),
    );
  }

  async #test({ name, title }) {
    await perform(call(`own-environments/${name}/test`, { method: "POST", body: {} }), `${title} is being tested again.`);
    poller.now();
  }

  async #remove({ name, title }) {
    const text = "It is removed from your catalog. Its files are kept, and running sessions continue.";
    await confirmed({ title: `Remove ${title}?`, text, action: "Remove", danger: true }, () => call(`own-environments/${name}`, { method: "DELETE" }), `${title} is removed.`);
    poller.now();
  }
}

async function list() {
  const { items, most } = await call("own-environments");
  const names = new Set(items.map((item) => item.name));
  for (const [name, entry] of shown) {
    if (names.has(name)) continue;
    entry.cards.show([], "");
    entry.element.remove();
    shown.delete(name);
  }
  for (const item of items) {
    if (!shown.has(item.name)) {
      shown.set(item.name, new Entry(item.name));
      byId("own-list").append(shown.get(item.name).element);
    }
    shown.get(item.name).show(item);
  }
  setText(byId("own-count"), items.length ? `${count(items.length, "environment")} of at most ${most}` : "");
  byId("own-empty").hidden = items.length > 0;
  trouble(null);
  return items.some((item) => item.state === "testing") ? EVERY.testing : EVERY.still;
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
  sends(form, byId("own-problem"), async () => {
    const missing = ["title", "path"].map((name) => form.elements[name]).find((field) => !field.value.trim());
    if (missing) throw new Wrong(missing.name === "title" ? "Enter a title." : "Enter an absolute path.", missing);
    const body = Object.fromEntries([...new FormData(form)].map(([name, text]) => [name, String(text).trim()]));
    if (body.kind !== "container") delete body.server;
    const made = await call("own-environments", { method: "POST", body });
    form.reset();
    fit();
    await poller.now();
    document.querySelector(`[data-environment="${CSS.escape(made.name)}"] a`)?.focus();
  });
}

poller.now();
