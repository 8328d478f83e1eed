// How a run is shown: its state, and a bar of its points by state.

import { facts } from "../api.js";
import { el, hidden } from "../dom.js";
import { UNKNOWN, clock, count, duration, exactly } from "../words.js";

// The states of points, in the order of the bar.
export const STATES = ["succeeded", "failed", "lost", "running", "waiting"];

// "3 succeeded, 2 waiting"; of a run that has ended, as in Sessions and mail: "5 of 6 succeeded, 1 failed".
export function countWords(run) {
  const number = (state) => run.counts[state].toLocaleString("en");
  const words = STATES.filter((state) => run.counts[state]).map((state) => `${number(state)} ${state}`);
  if (run.ended_at !== null && run.points) {
    if (run.counts.succeeded) words.shift();
    words.unshift(`${number("succeeded")} of ${run.points.toLocaleString("en")} succeeded`);
  }
  return words.join(", ");
}

// The bar, and its numbers in words beside it.
export function points(run) {
  const pieces = STATES.filter((state) => run.counts[state]).map((state) => el(`span.point-${state}`, { style: { flexGrow: run.counts[state] } }));
  return el("div.run-points", el("span.run-bar", { "aria-hidden": "true" }, pieces), el("span", countWords(run)));
}

export const time = (at) => (at === null ? "" : el("time", { title: exactly(at) }, clock(at)));

// How long a point has taken; `now` in Unix seconds.
export function seconds(point, now) {
  if (point.started_at === null) return "";
  return duration((point.ended_at ?? now) - point.started_at);
}

// The page of a run; another user's is addressed by its user and id.
export function runPage(run) {
  const owner = run.user === facts.user ? "" : `?owner=${encodeURIComponent(run.user)}`;
  return `${facts.prefix}runs/${encodeURIComponent(run.id)}${owner}`;
}

// A metric's value with at most six digits.
export function metric(value) {
  if (value === undefined || value === null) return el("span", "–", hidden(UNKNOWN));
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 6 });
}

// A parameter's value.
export function value(given) {
  if (given === undefined || given === null) return el("span", "–", hidden(UNKNOWN));
  return typeof given === "number" ? metric(given) : String(given);
}

// "lr 0.0123457, opt adam": the values of these parameters.
export const inWords = (parameters, names = Object.keys(parameters).sort()) => names.map((name) => `${name} ${textOf(parameters[name])}`).join(", ");
export const textOf = (given) => (given === undefined || given === null ? "none" : typeof given === "number" ? metric(given) : String(given));

// The names of the parameters of which those points that have one do not all have the same value.
export function differing(points) {
  const names = [...new Set(points.flatMap((parameters) => Object.keys(parameters)))].sort();
  return names.filter((name) => new Set(points.filter((parameters) => name in parameters).map((parameters) => JSON.stringify(parameters[name]))).size > 1);
}

export const pointWords = (run) => `${count(run.points, "point")}, at most ${run.at_once.toLocaleString("en")} at once`;
