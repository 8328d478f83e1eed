// A run once more: the points that have not succeeded, or all of them as a new run, exactly; and with whom it is
// shared.

import { spaceOf } from "../space.js";
import { actionButton, actions } from "./actions.js";
import { call, facts } from "../api.js";
import { answered, ask, perform, toast } from "../dialog.js";
import { el, fill, hidden } from "../dom.js";
import { openForm } from "../forms.js";
import { Row, input, select } from "./row.js";
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

actions.push((run) => (run.ended_at === null || (spaceOf(run) && !run.project && !run.mine) ? null : actionButton("Repeat exactly…", () => repeat(run))));

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

// With whom a run is shared, in a part of the page of its own.
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
    const { users, projects, groups } = shares;
    const items = [
      ...users.map((user) => el("li", el("span", user), this.#stop(run, user, () => call(`${path(run)}/shares/${encodeURIComponent(user)}`, { method: "DELETE" })))),
      ...projects.map((project) => this.#team(run, `project ${project}`, { project })),
      ...groups.map((group) => this.#team(run, `group ${group}`, { group })),
    ];
    const nobody = shares.project ? `The members of the project ${shares.project} see this run.` : "Only you see this run.";
    fill(
      this.place,
      el("h2", { id: "shares-title" }, "Shared with"),
      shares.project || !items.length ? el("p.portal-quiet", nobody) : null,
      items.length ? el("ul.run-shares", items) : null,
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#share(run, shares) }, "Share run…"),
    );
  }

  #team(run, words, query) {
    return el("li", el("span", words), this.#stop(run, words, () => call(`${path(run)}/shares`, { method: "DELETE", query })));
  }

  #stop(run, whom, request) {
    const act = async () => {
      await perform(request());
      await this.#load(run);
      this.place.querySelector("button:last-of-type")?.focus();
    };
    return el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: act }, "Stop sharing", hidden(` with ${whom}`));
  }

  #share(run, { my_projects: projects, my_groups: groups, project: own }) {
    const teams = [...projects.filter((name) => name !== own).map((name) => ["project", name]), ...groups.map((name) => ["group", name])];
    const whom = new Row("With", select([["", "a user"], ...teams.map(([kind, name], at) => [String(at), `${kind} ${name}`])]));
    const user = new Row("User name", input());
    user.control.maxLength = 255;
    whom.node.hidden = !teams.length;
    whom.control.addEventListener("change", () => (user.node.hidden = whom.value !== ""));
    const send = async () => {
      const [kind, name] = whom.value ? teams[Number(whom.value)] : ["user", user.value];
      if (!name) {
        user.show("Enter a user name.");
        user.control.focus();
        return;
      }
      const { message } = await call(`${path(run)}/shares`, { method: "POST", body: { [kind]: name } });
      dialog.close();
      toast(message);
      await this.#load(run);
    };
    const text = "They see the run and its points, and can repeat it. To repeat it, they must be able to read its folder.";
    const dialog = openForm({ id: "share", title: `Share “${run.name}”?`, text, content: [whom.node, user.node], action: "Share", first: teams.length ? whom.control : user.control, send });
  }
}
