// Request an environment, and list the user's requests with their answers.

import { call, facts, loginEnded } from "./api.js";
import { toast } from "./dialog.js";
import { byId, el, empty, fill, setText, trouble } from "./dom.js";
import { sends, Wrong } from "./forms.js";
import { Pager } from "./pager.js";
import { pill } from "./status.js";
import { capital, clock, count } from "./words.js";

const STATES = { open: "waiting for an answer", done: "done", declined: "declined" };
const pager = new Pager(byId("requests-pager"), 10, list);
const form = byId("request");

function entry(request) {
  const answered = request.state !== "open";
  return el(
    `li.entry${answered ? ".entry-over" : ""}`,
    el(
      "div",
      request.source ? el("p.portal-path", el("code", request.source)) : null,
      request.text ? el("p.entry-text", request.text) : null,
      el("p.portal-facts", pill(request.state, capital(STATES[request.state])), el("span", `requested ${clock(request.at)}`)),
      request.answer ? el("p.why.entry-text", `${request.answered_by}: ${request.answer}`) : null,
      request.environment
        ? el("p", el("a", { href: `${facts.prefix}catalog/${request.environment}` }, `View ${request.environment}`))
        : null,
    ),
  );
}

async function list() {
  const place = byId("requests");
  try {
    const page = await pager.read((place) => call("environment-requests", { query: { mine: "true", ...place } }));
    setText(byId("requests-count"), page.total ? count(page.total, "request") : "");
    fill(place, page.items.length ? el("ul.entries", page.items.map(entry)) : empty("You have no requests yet."));
    fill(byId("troubles"));
  } catch (error) {
    if (!loginEnded(error)) fill(byId("troubles"), trouble(error.message));
  }
  place.removeAttribute("aria-busy");
}

sends(form, byId("request-problem"), async () => {
  const body = { text: form.elements.text.value.trim(), source: form.elements.source.value.trim() };
  if (!body.text && !body.source) throw new Wrong("Describe what you need, or enter an image.", form.elements.text);
  await call("environment-requests", { method: "POST", body });
  form.reset();
  toast("Request sent.");
  pager.first();
  await list();
});

list();
