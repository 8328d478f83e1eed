// A run once more: the points that have not succeeded, or all of them as a new run, exactly; and the users
// with whom it is shared.

import { spaceOf } from "../space.js";
import { actionButton, actions } from "./actions.js";
import { call, facts } from "../api.js";
import { answered, ask, confirmed, perform } from "../dialog.js";
import { el, fill, hidden } from "../dom.js";
import { openForm } from "../forms.js";
import { runPage } from "./view.js";
import { count } from "../words.js";

const ownerOf = (run) => (run.mine ? undefined : run.user);
/** @type {(run: any) => `runs/${string}`} */
const path = (run) => `runs/${encodeURIComponent(run.id)}`;

actions.push((run, refresh) => {
  const left = run.points - run.counts.succeeded;
  if (run.ended_at === null || !left || !run.mine) return null;
  return actionButton("Run failed points again…", () => again(run, left, refresh));
});

actions.push((run) => (run.ended_at === null || (spaceOf(run) && !run.mine) ? null : actionButton("Repeat exactly…", () => repeat(run))));

async function again(run, left, onDone) {
  const changes = await askChanges(run, left);
  if (changes === null) return;
  const done = await perform(call(`${path(run)}/again`, { method: "POST", body: changes }), `${count(left, "point")} started again.`);
  if (done) onDone();
}

// Asks for more time or memory; resolves to what differs, or null if the user cancels.
function askChanges(run, left) {
  return new Promise((resolve) => {
    const field = (name, hint) =>
      el("input.form-control", { id: `again-${name}`, name, maxlength: 40, autocomplete: "off", placeholder: run.resources[name] ?? hint });
    const fields = { time: field("time", "H:MM:SS"), memory: field("memory", "such as 32G") };
    openForm({
      id: "again",
      title: `Run ${count(left, "point")} of “${run.name}” again?`,
      text: "Points that have succeeded do not run again. Empty fields leave the resources as they were.",
      content: [
        el("div.mb-2", el("label.form-label", { for: "again-time" }, "Time limit of each point"), fields.time),
        el("div.mb-2", el("label.form-label", { for: "again-memory" }, "Memory of each point"), fields.memory),
      ],
      action: "Run again",
      first: fields.time,
      onClose: (sent) => {
        const given = Object.entries(fields).map(([name, input]) => [name, input.value.trim()]);
        resolve(sent ? Object.fromEntries(given.filter(([, value]) => value)) : null);
      },
    });
  });
}

async function repeat(run) {
  const plan = await answered(call(`${path(run)}/repetitions`, { query: { owner: ownerOf(run) } }));
  if (!plan) return;
  const version = plan.version === null ? "" : `, version ${plan.version}`;
  const code = plan.author === facts.user ? "your own code" : `the code of ${plan.author}, with all that you may do`;
  const differs = plan.drift.length ? ` ${plan.drift.join(" ")}` : "";
  const sure = await ask({
    title: `Repeat “${run.name}” as “${plan.name}”?`,
    text: `A new run executes ${code}: ${count(run.points, "point")} with the source, its local modules and the parameters as they were, in ${plan.environment}${version}.${differs} Each point reports what else differs.`,
    action: "Repeat",
  });
  if (sure === null) return;
  const started = await answered(call(`${path(run)}/repetitions`, { method: "POST", query: { owner: ownerOf(run) } }));
  if (started) window.location.assign(`${facts.prefix}runs/${started.id}`);
}

// What differs from the run that this one repeats; null if it repeats none.
export function driftPart(run) {
  if (!run.origin) return null;
  const own = run.origin.user === run.user || run.origin.user === facts.user;
  const link = el("a", { href: runPage(run.origin) }, own ? "another run" : `a run of ${run.origin.user}`);
  const finished = run.counts.succeeded + run.counts.failed;
  return el(
    "div.run-drift",
    el("p", "It repeats ", link, run.drift.length || !finished ? "." : ". No differences were found."),
    run.drift.length
      ? el(
          "details",
          el("summary", count(run.drift.length, "difference")),
          el("ul", run.drift.map((difference) => el("li", `${difference.text} (${count(difference.points, "point")})`))),
        )
      : null,
  );
}

// The users with whom a run is shared, in a part of the page of its own.
export class Shares {
  constructor(place) {
    this.place = place;
  }

  async show(run) {
    if (this.shown || !run.mine) return;
    this.shown = true;
    await this.#load(run);
  }

  async #load(run) {
    const shares = await answered(call(`${path(run)}/shares`));
    if (!shares) {
      this.shown = false; // the next update of the page asks again
      return;
    }
    this.place.hidden = false;
    fill(
      this.place,
      el("h2", { id: "shares-title" }, "Shared with"),
      shares.users.length
        ? el("ul.run-shares", shares.users.map((user) => el("li", el("span", user), this.#stop(run, user))))
        : el("p.portal-quiet", "Only you see this run."),
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#share(run) }, "Share run…"),
    );
  }

  #stop(run, user) {
    const act = async () => {
      await perform(call(`${path(run)}/shares/${encodeURIComponent(user)}`, { method: "DELETE" }));
      await this.#load(run);
      this.place.querySelector("button:last-of-type")?.focus();
    };
    return el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: act }, "Stop sharing", hidden(` with ${user}`));
  }

  async #share(run) {
    const question = {
      title: `Share “${run.name}”?`,
      text: "The user sees the run and its points, and can repeat it. To repeat it, they must be able to read its folder.",
      action: "Share",
      field: { label: "User name", required: true, maxlength: 255 },
    };
    await confirmed(question, (user) => call(`${path(run)}/shares`, { method: "POST", body: { user } }));
    await this.#load(run);
  }
}
