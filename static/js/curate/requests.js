// The users' requests for environments, and their answers.

import { call, facts } from "../api.js";
import { tell } from "../dialog.js";
import { byId, differs, el, empty, fill, setText } from "../dom.js";
import { count } from "../words.js";
import { all, environmentPage, when } from "./words.js";

export async function loadRequests() {
  const place = byId("requests");
  try {
    const items = await all("environment-requests", { state: "open" }, 200);
    // Keep an answer that is being written.
    if ([...place.querySelectorAll("textarea, input")].some((field) => field.value)) return;
    if (!differs(place, items)) return;
    setText(byId("requests-count"), items.length ? count(items.length, "open request") : "");
    fill(place, items.length ? el("ul.entries", items.map(entry)) : empty("No open requests."));
  } catch (error) {
    setText(byId("requests-count"), error.message);
  } finally {
    place.removeAttribute("aria-busy");
  }
}

function entry(item) {
  const id = `request-${item.id}`;
  const answer = el("textarea.form-control", { id: `${id}-answer`, maxlength: 2000, rows: 2, "aria-describedby": `${id}-problem` });
  const environment = el("input.form-control", { id: `${id}-environment`, maxlength: 63, autocomplete: "off", spellcheck: "false" });
  const problem = el("p.form-problem", { id: `${id}-problem`, role: "alert" });
  const send = async (state) => {
    setText(problem, "");
    try {
      await call(`environment-requests/${item.id}/answer`, { method: "POST", body: { state, answer: answer.value.trim(), environment: state === "done" ? environment.value.trim() : "" } });
      answer.value = environment.value = "";
      await tell(() => `The answer to ${item.person} is sent.`);
      await loadRequests();
      byId("requests-title").scrollIntoView({ block: "nearest" });
    } catch (error) {
      setText(problem, error.message);
    }
  };
  const query = new URLSearchParams({ request: item.id });
  if (item.source) query.set("source", item.source);
  return el(
    "li.entry",
    { dataset: { request: item.id } },
    el(
      "div",
      el("p.entry-text", item.text),
      item.source ? el("p.portal-path", el("code", item.source)) : null,
      el("p.portal-facts", el("span", item.person), el("span", when(item.at)), item.environment ? el("a", { href: environmentPage(item.environment) }, item.environment) : null),
      el(
        "div.entry-actions",
        el("a.btn.btn-sm.btn-outline-contrast", { href: `${facts.prefix}curate/new?${query}` }, "Create environment"),
      ),
      el(
        "details",
        el("summary", "Answer"),
        el(
          "div.answer",
          el("label.form-label", { for: answer.id }, `Answer to ${item.person}`),
          answer,
          el("label.form-label", { for: environment.id }, "Name of the environment (optional)"),
          environment,
          problem,
          el(
            "div.entry-actions",
            el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: () => send("done") }, "Mark as done"),
            el("button.btn.btn-sm.btn-outline-danger.portal-danger", { type: "button", onclick: () => send("declined") }, "Decline"),
          ),
        ),
      ),
    ),
  );
}
