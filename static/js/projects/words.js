// Projects in words, and their addresses.

import { facts } from "../api.js";
import { count, day, short } from "../words.js";

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

export const names = (text) => text.split(/[\s,;]+/).filter(Boolean);
