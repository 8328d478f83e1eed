// Change of a running session's resources: the form, what is lost, and its progress.

import { call, may } from "./api.js";
import { answered, tell } from "./dialog.js";
import { button, byId, el, fill, hidden, setText } from "./dom.js";
import { openForm } from "./forms.js";
import { Poller } from "./poller.js";
import { ResourcesForm } from "./resources-form.js";

const LIVE = ["queued", "starting", "ready", "switching"];
const EVERY = 3000; // milliseconds, during a move
/** @type {(session: any) => `sessions/${string}/move`} */
const path = (session) => `sessions/${encodeURIComponent(session.id)}/move`;

let following = null;

// The button; null if nothing can be changed. `name` is added for screen readers.
export function moveButton(session, name, onDone) {
  if (session.state !== "running" || !session.mine || !session.has_page) return null;
  return button(["Change resources…", hidden(name)], () => change(session, onDone));
}

// Shows the progress of the session's move in `place`, and follows it. `onDone` runs once when it ends.
export function follow(place, session, onDone) {
  following?.stop();
  if (session.state !== "running" || !session.has_page) return place.replaceChildren();
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
        el("strong", live ? "Resources are being changed" : move.state === "failed" ? "Resources were not changed" : "The change of resources was cancelled"),
        words,
        off ? button("Cancel change", () => cancelMove(session, again)) : null,
      ),
    );
  }
  setText(words, move.words);
}

async function cancelMove(session, again) {
  await tell(async () => (await call(path(session), { method: "DELETE" })).words);
  again();
}

// The page's own classes for the form.
const CLASSES = {
  row: "mb-2",
  label: "form-label",
  input: "form-control",
  select: "form-select",
  button: "btn btn-sm btn-outline-contrast mb-2",
  warning: "fw-bold",
  wrong: "text-danger mb-0",
};

// Asks for the resources, and queues the new job.
async function change(session, onDone) {
  const before = await answered(call(path(session), { query: { kernels: "true" } }));
  if (!before) return;
  // The portal defines the fields (portal/launch/fields.py).
  const resources = new ResourcesForm(
    before,
    (options) => call("estimates", { method: "POST", body: { options } }),
    CLASSES,
  );
  const send = async () => {
    try {
      await call(path(session), { method: "POST", body: resources.value });
      dialog.close();
      onDone();
    } catch (error) {
      if (!resources.refuse(error.field, error.message)) throw error;
    }
  };
  const dialog = openForm({
    id: "move",
    title: "Change resources",
    content: [resources.node],
    action: "Queue new job",
    first: resources,
    send,
    onClose: () => resources.dispose(),
  });
}
