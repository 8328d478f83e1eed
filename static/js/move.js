// Other resources for a running session: the form, what would be lost, and how it goes on.

import { call, may } from "./api.js";
import { tell, toast } from "./dialog.js";
import { byId, el, fill, hidden, setText, later } from "./dom.js";
import { Poller } from "./poller.js";

const LIVE = ["queued", "starting", "ready", "switching"];
const EVERY = 3000; // milliseconds, while a move is under way
const PAUSE = 500; // after the last change, until it is asked when that would start
/** @type {(session: any) => `sessions/${string}/move`} */
const path = (session) => `sessions/${encodeURIComponent(session.id)}/move`;

let following = null;

// The button; null where there is nothing to change. `name` says of what, for those who hear it.
export function moveButton(session, name, onDone) {
  if (session.state !== "running" || !session.mine) return null;
  return el(
    "button.btn.btn-sm.btn-outline-contrast",
    { type: "button", onclick: () => change(session, onDone) },
    "Change resources…",
    hidden(name),
  );
}

// Shows in `place` how the session's move goes on, and follows it. `onDone` runs once when it ends.
export function follow(place, session, onDone) {
  following?.stop();
  if (session.state !== "running") return place.replaceChildren();
  const poller = new Poller({ every: EVERY, ask });
  following = poller;
  poller.now();

  async function ask() {
    const { move } = await call(path(session));
    const before = place.dataset.state ?? "";
    place.dataset.state = move?.state ?? "";
    show(place, session, move, () => poller.now());
    if (LIVE.includes(move?.state)) return EVERY;
    if (LIVE.includes(before)) onDone();
    return null;
  }
}

function show(place, session, move, again) {
  if (!move || move.state === "done") return place.replaceChildren();
  const live = LIVE.includes(move.state);
  let words = byId("move-words");
  if (!words || words.dataset.state !== move.state) {
    words = el("p", { id: "move-words", dataset: { state: move.state } });
    const off = live && ["queued", "starting"].includes(move.state) && (session.mine || may("jobs:manage"));
    fill(
      place,
      el(
        `div.alert.${live ? "alert-info" : move.state === "failed" ? "alert-warning" : "alert-secondary"}`,
        {},
        el("strong", {}, live ? "Its resources are being changed" : move.state === "failed" ? "Its resources were not changed" : "The change of its resources was called off"),
        words,
        off ? el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => callOff(session, again) }, "Call it off") : null,
      ),
    );
  }
  setText(words, move.words);
}

async function callOff(session, again) {
  await tell(async () => (await call(path(session), { method: "DELETE" })).words);
  again();
}

// Asks which resources, and has the new job queued.
async function change(session, onDone) {
  let before;
  try {
    before = await call(path(session), { query: { kernels: "true" } });
  } catch (error) {
    toast(error.message, true);
    return;
  }
  // What is asked for is the portal's to say (portal/launch/fields.py).
  const asked = before.fields.filter((field) => !field.values || field.values.length);
  const inputs = Object.fromEntries(asked.map((field) => [field.name, input(field, before.options[field.name])]));
  for (const { name, number, least } of asked) inputs[name].value = before.options[name] ?? (number && !least ? 0 : "");
  const estimate = el("p.portal-quiet", { role: "status" });
  const problem = el("p.text-danger", { role: "alert" });
  const form = el(
    "form",
    {},
    el("h2", { id: "move-title" }, "Change resources"),
    asked.map(({ name, label }) => el("div.mb-2", {}, el("label.form-label", { for: inputs[name].id }, label), inputs[name])),
    estimate,
    el(
      "p",
      {},
      "The session goes on until the new job can take its place. Then open documents are saved and opened again, and terminals begin in the same folders. Kernels end, and their variables go: what you still need must be in files.",
    ),
    busy(before.busy),
    problem,
    el(
      "div.ask-buttons",
      {},
      el("button.btn.btn-outline-contrast", { type: "button", onclick: () => dialog.close() }, "Back"),
      el("button.btn.btn-jupyter", { type: "submit" }, "Queue the new job"),
    ),
  );
  const dialog = el("dialog.ask", { "aria-labelledby": "move-title" }, form);
  const back = /** @type {HTMLElement} */ (document.activeElement);
  const ask = later(() => estimated(before, chosen(before.fields, inputs), estimate), PAUSE);
  form.addEventListener("input", ask);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await call(path(session), { method: "POST", body: chosen(before.fields, inputs) });
      dialog.close();
      onDone();
    } catch (error) {
      setText(problem, error.message);
    }
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (back?.isConnected) back.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  inputs.gpus.focus();
  ask();
}

function input({ name, number, least, values }, now) {
  const id = `move-${name}`;
  if (values) {
    const all = new Set(["", ...values, ...(now ? [now] : [])]); // also one that none of them is
    return el("select.form-select", { id }, [...all].map((one) => el("option", { value: one }, one || "any")));
  }
  return el("input.form-control", number ? { id, type: "number", min: least } : { id });
}

function chosen(fields, inputs) {
  const body = {};
  for (const { name, number } of fields) {
    const text = inputs[name]?.value.trim();
    if (text) body[name] = number ? Number(text) : text;
  }
  if (!body.gpus) delete body.gpu_type;
  return body;
}

function busy(names) {
  if (!names) return null; // its server does not say
  if (!names.length) return el("p", {}, "No kernel computes now.");
  return el(
    "div",
    {},
    el("strong", {}, "Computing now, and ended by the move if not done by then:"),
    el("ul", {}, names.map((name) => el("li", {}, name))),
  );
}

async function estimated({ options, kept: names }, wanted, place) {
  const kept = Object.fromEntries(names.filter((name) => options[name]).map((name) => [name, options[name]]));
  try {
    const answer = await call("estimates", { method: "POST", body: { options: { ...kept, ...wanted } } });
    setText(place, answer.words);
  } catch (error) {
    setText(place, `When it would start is not known. ${error.message}`);
  }
}
