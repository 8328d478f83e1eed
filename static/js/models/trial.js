// How to ask a model: its address, curl and Python to copy, and a request from the page.

import { call, facts } from "../api.js";
import { copies } from "../copy.js";
import { byId, el, fill } from "../dom.js";
import { sends } from "../forms.js";
import { statePill, pathOf } from "./words.js";
import { duration } from "../words.js";

const TOKEN = "TOKEN";

// `usable`: the user may send requests, which an admin need not.
export async function showTrial(name, usable) {
  const place = byId("ask");
  if (!usable) {
    fill(place, el("p.portal-quiet", "You may not use this model: its owner says who may."));
    return;
  }
  /** @type {any} */
  const told = await call(/** @type {`models/${string}/trial`} */ (`${pathOf(name)}/trial`));
  const url = `${window.location.origin}${told.address.replace(/\/$/, "")}`;
  fill(
    place,
    el(
      "p.portal-quiet",
      "Replace ",
      el("code", TOKEN),
      " by a token of yours: ",
      el("a", { href: `${facts.hub}token` }, "make one"),
      ", for this model alone with the scope ",
      el("code", `custom:portal:models:use!service=${name}`),
      ".",
    ),
    code("curl", curl(url, told.example)),
    code("Python", python(url, told.example)),
    el("h3", "Try it"),
    form(name, told),
  );
}

function code(title, text) {
  const copy = el("button.btn.btn-sm.btn-outline-contrast", { type: "button", hidden: true }, `Copy ${title}`);
  copies(copy, text, "Copied.");
  return el("details", { open: title === "curl" }, el("summary", title), el("pre.model-code", { tabindex: 0, role: "region", "aria-label": title }, el("code", text)), copy);
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curl(url, { method, path, body }) {
  const sent = body ? ` \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}` : "";
  return `curl -X ${method} ${quoted(url + path)} \\\n  -H 'Authorization: Bearer ${TOKEN}'${sent}`;
}

function python(url, { method, path, body }) {
  const sent = body ? `, json=json.loads(${JSON.stringify(JSON.stringify(body))})` : "";
  return `${body ? "import json\n\n" : ""}import requests

headers = {"Authorization": "Bearer ${TOKEN}"}
answer = requests.request(${JSON.stringify(method)}, ${JSON.stringify(url + path)}, headers=headers${sent}, timeout=600)
answer.raise_for_status()
print(answer.text)`;
}

// A form that sends the example, or what was made of it, through the gateway.
function form(name, { example }) {
  const method = el("select.form-select", { id: "trial-method" }, ["GET", "POST"].map((word) => el("option", { value: word, selected: word === example.method }, word)));
  const path = el("input.form-control", { id: "trial-path", spellcheck: "false", autocomplete: "off", required: true });
  path.value = example.path;
  const body = el("textarea.form-control", { id: "trial-body", rows: 5, spellcheck: "false" });
  body.value = example.body ? JSON.stringify(example.body, null, 2) : "";
  const problem = el("p.form-problem", { role: "alert" });
  const answer = el("div", { id: "trial-answer", role: "status" });
  const made = el(
    "form.model-trial",
    el("div.filters", field("Method", method), field("Path", path)),
    field("Body (JSON)", body),
    problem,
    el("div", el("button.btn.btn-jupyter", "Send request")),
    answer,
  );
  sends(made, problem, async () => {
    fill(answer, statePill("loading"), el("span.portal-quiet", " A model that sleeps is woken first, which takes as long as its job waits and loads."));
    try {
      const asked = { method: method.value, path: path.value.trim(), body: parsed(body.value) };
      /** @type {any} */
      const said = await call(/** @type {`models/${string}/trial`} */ (`${pathOf(name)}/trial`), { method: "POST", body: asked });
      const good = said.status < 400;
      const took = said.seconds < 10 ? `${Math.max(1, Math.round(1000 * said.seconds)).toLocaleString("en")} ms` : duration(said.seconds);
      fill(answer, el("p", el("strong", good ? "Answer" : "No success"), ` · status ${said.status} · ${took}${said.cut ? " · only its beginning" : ""}`), el("pre.model-code.model-answer", { tabindex: 0, role: "region", "aria-label": "Answer" }, pretty(said)));
    } catch (error) {
      fill(answer);
      throw error;
    }
  });
  return made;
}

const field = (label, control) => el("div.filter", el("label.form-label", { for: control.id }, label), control);

function parsed(text) {
  if (!text.trim()) return null;
  let value = null;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`The body is no JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("The body must be a JSON object, such as {\"input\": \"hello\"}.");
  return value;
}

function pretty({ type, body, cut }) {
  if (!type.includes("json") || cut) return body;
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}
