// Projects in words, and their addresses.

import { facts } from "../api.js";
import { el } from "../dom.js";
import { count, day, memory, short } from "../words.js";

export const pageOf = (name) => `${facts.prefix}projects/${encodeURIComponent(name)}`;
/** @type {(name: string) => `projects/${string}`} */
export const pathOf = (name) => `projects/${encodeURIComponent(name)}`;
// The Hub's page that launches a session for a project.
export const launchOf = (name) => `${facts.hub}spawn?opt-project=${encodeURIComponent(name)}`;

// "used 12 of 100 GPU-hours", and how long the rest lasts at the pace of the last week.
export function budgetWords({ budget, used, weekly = 0, until = null }) {
  if (budget === null) return `used ${count(Number(short(used)), "GPU-hour")}, without a limit`;
  const words = `used ${short(used)} of ${count(budget, "GPU-hour")}`;
  if (used >= budget) return `${words}: none is left`;
  return until && weekly ? `${words}, at this pace until ${day(until)}` : words;
}

const bytes = (number) => memory(number / 2 ** 20);

// The folder's path, and the room in it: "120 GiB free of its quota of 500 GiB".
export function folderWords({ path, exists, size, free, quota }) {
  if (exists === null) return `${path} does not answer now`;
  if (!exists) return path ? `${path} does not exist yet, so sessions have no shared folder` : "This site has none.";
  const room = free === null ? "" : `${bytes(free)} free of ${quota === null ? bytes(size) : `its quota of ${bytes(quota)}`}`;
  return [el("code", path), room ? `, ${room}` : null];
}

export const names = (text) => text.split(/[\s,;]+/).filter(Boolean);
