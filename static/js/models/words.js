// Models in words: states, and where a version comes from.

import { facts } from "../api.js";
import { el } from "../dom.js";
import { pill } from "../status.js";
import { capital, count } from "../words.js";

// Looks (static/js/status.js) of the states of endpoints and replicas, and their words.
const LOOKS = {
  ready: ["ready", "ready"],
  loading: ["starting", "loading"],
  waiting: ["waiting", "waiting in the queue"],
  asleep: ["off", "asleep"],
  empty: ["draft", "no version"],
  failed: ["failed", "does not answer"],
  draining: ["stopping", "draining"],
  ended: ["ended", "ended"],
};
export const statePill = (state) => pill(...(LOOKS[state] ?? ["unknown", state]));

export const pageOf = (name) => `${facts.prefix}endpoints/${encodeURIComponent(name)}`;
/** @type {(name: string) => `models/${string}`} */
export const pathOf = (name) => `models/${encodeURIComponent(name)}`;

// State of an endpoint whose details are known.
export function stateOf(model) {
  const has = (state) => model.replicas.some((replica) => replica.state === state);
  const alive = ["ready", "loading", "waiting"].find(has);
  if (alive === "ready" || !model.problem) return alive ?? (model.versions.some(({ share }) => share) ? "asleep" : "empty");
  return "failed";
}

// Where a version comes from: a link to its run's point, a name of the catalog, or its folder.
export function lineage({ source, folder }) {
  if (source.run) {
    const href = `${facts.prefix}runs/${encodeURIComponent(source.run)}?point=${source.point}`;
    return el("span", "Point ", el("a", { href }, `${source.point} of ${source.name ?? source.run}`));
  }
  if (source.model) return el("span", `Catalog: ${source.model}`);
  return el("span", `Folder ${source.folder || folder}`);
}

const WHO = 3; // names that are said
const named = (names, noun) => (names.length > WHO ? count(names.length, noun) : names.join(", "));

const plural = (names, noun) => (names.length ? `${names.length > 1 ? `${noun}s` : noun} ${named(names, noun)}` : "");

// Who may use an endpoint, besides its owner.
export function audience({ everyone, users, groups, projects, project }) {
  if (everyone) return "Everyone";
  const spaces = plural([...new Set([project, ...projects])].filter(Boolean), "project");
  const all = [plural(groups, "group"), spaces].filter(Boolean).join("; ");
  if (!users.length) return capital(all) || "Only its owner";
  return [named(users, "user"), all].filter(Boolean).join("; ");
}
