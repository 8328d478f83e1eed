// States of environments, builds and tests.

import { call, facts } from "../api.js";
import { el } from "../dom.js";
import { pill } from "../status.js";
import { clock, exactly } from "../words.js";

// portal.models.catalog.environment.EnvironmentState, portal.models.catalog.image_job.WorkState
export const versionState = (state) => pill(state);
export const workState = (state) => pill(state, state === "unknown" ? "could not run" : state);
export const isLive = (work) => work.state === "waiting" || work.state === "running";

// Names of pages under curate/ (portal/handlers/pages/curate.py) can also be names of environments.
const PAGES = ["new", "builds", "registries", "environments"];
const below = (path) => `${facts.prefix}curate/${path}`;
export const environmentPage = (name) => below(`${PAGES.includes(name) ? "environments/" : ""}${encodeURIComponent(name)}`);
export const editPage = (name) => below(`environments/${encodeURIComponent(name)}/edit`);
export const buildPage = (id) => below(`builds/${id}`);
export const launchPage = (name) => `${facts.hub}spawn#environment=${encodeURIComponent(name)}`;

// API path of an environment, or of something below it.
/** @type {import("../../types/call").PathBelow<"environments">} */
export const at = (name, ...more) => /** @type {any} */ (["environments", encodeURIComponent(name), ...more].join("/"));

export const when = (at) => (at ? el("span.nowrap", { title: exactly(at) }, clock(at)) : "–");
export const gpuWords = (type) => type || "without GPUs";

// Bytes: "512 MB", "3.4 GB"
export function bytes(size) {
  if (!size) return "";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (size >= 1000 && step < units.length - 1) {
    size /= 1000;
    step += 1;
  }
  return `${size.toLocaleString("en", { maximumFractionDigits: size < 10 && step > 1 ? 1 : 0 })} ${units[step]}`;
}

export const origins = { page: "web page or API", file: "catalog folder", build: "build" };

// All pages of a list, up to `most` items.
export async function all(path, query = {}, most = 500) {
  const items = [];
  let after = null;
  do {
    const page = await call(path, { query: { ...query, limit: 100, after } });
    items.push(...page.items);
    after = page.next;
  } while (after && items.length < most);
  return items;
}
