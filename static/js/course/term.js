// The meetings of a course as months, from the values in the form; updated while the user types. Days are
// in the course's time zone.

import { differs, el, fill, setText } from "../dom.js";
import { count } from "../words.js";

const MONTH = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", timeZone: "UTC" });
const LETTERS = ["M", "T", "W", "T", "F", "S", "S"];
const MOST = 26; // months
const ONE = 86400000;

const parse = (text) => (/^\d{4}-\d\d-\d\d$/.test(text ?? "") ? Date.parse(`${text}T00:00:00Z`) : NaN);
const weekday = (day) => (new Date(day).getUTCDay() + 6) % 7;
const iso = (day) => new Date(day).toISOString().slice(0, 10);

// Times by day: {"2026-11-23": ["09:00"], …}; `off`: days without a meeting because of holidays.
export function daysOf(course) {
  const first = parse(course.begins);
  const last = parse(course.ends);
  const times = new Map();
  const off = new Set();
  if (!(last >= first) || last - first > 2 * 366 * ONE) return { times, off, first, last };
  const without = new Set(course.without ?? []);
  for (let day = first; day <= last; day += ONE) {
    for (const weekly of course.weekly ?? []) {
      if (Number(weekly.day) !== weekday(day) || !weekly.begins) continue;
      if (without.has(iso(day))) off.add(iso(day));
      else times.set(iso(day), [...(times.get(iso(day)) ?? []), weekly.begins]);
    }
  }
  for (const single of course.single ?? []) {
    const day = parse(single.date);
    if (day >= first && day <= last && single.begins) times.set(iso(day), [...(times.get(iso(day)) ?? []), single.begins]);
  }
  return { times, off, first, last };
}

export class Term {
  constructor(place, words) {
    this.place = place;
    this.words = words;
  }

  show(course) {
    if (!differs(this, [course.begins, course.ends, course.weekly, course.single, course.without])) return;
    const { times, off, first, last } = daysOf(course);
    const number = [...times.values()].reduce((sum, some) => sum + some.length, 0);
    setText(this.words, Number.isNaN(first) || Number.isNaN(last) ? "" : `${number ? count(number, "meeting") : "No meetings"}${off.size ? `, ${count(off.size, "holiday")}` : ""}`);
    if (!(last >= first)) {
      fill(this.place, el("p.portal-quiet", "Enter the first and the last day."));
      return;
    }
    const months = [];
    const end = new Date(last);
    for (let at = new Date(Date.UTC(new Date(first).getUTCFullYear(), new Date(first).getUTCMonth(), 1)); at <= end && months.length < MOST; at = new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1))) {
      months.push(month(at, { times, off, first, last }));
    }
    fill(this.place, months);
  }
}

function month(at, { times, off, first, last }) {
  const days = new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 0)).getUTCDate();
  const cells = Array.from({ length: weekday(at.getTime()) }, () => el("td"));
  for (let number = 1; number <= days; number += 1) {
    const day = at.getTime() + (number - 1) * ONE;
    const meets = times.get(iso(day));
    const look = meets ? "td.term-meets" : off.has(iso(day)) ? "td.term-off" : day < first || day > last ? "td.term-out" : "td";
    const title = meets ? `${DAY.format(day)}: ${[...meets].sort().join(", ")}` : off.has(iso(day)) ? `${DAY.format(day)}: holiday` : null;
    cells.push(el(look, { title }, String(number), title ? el("span.visually-hidden", ` ${title}`) : null));
  }
  while (cells.length % 7) cells.push(el("td"));
  const weeks = [];
  for (let week = 0; week < cells.length; week += 7) weeks.push(el("tr", cells.slice(week, week + 7)));
  return el(
    "table.term-month",
    el("caption", MONTH.format(at)),
    el("thead", { "aria-hidden": "true" }, el("tr", LETTERS.map((letter) => el("th", { scope: "col" }, letter)))),
    el("tbody", weeks),
  );
}
