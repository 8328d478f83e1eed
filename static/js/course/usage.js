// What a course has used, student by student: as columns, as a table, as a file.

import { call } from "../api.js";
import { byId, el, setText } from "../dom.js";
import { Table } from "../table.js";
import { hours, short } from "../words.js";
import { at } from "./words.js";

const MOST = 30; // columns

export async function usage(course) {
  let answer;
  try {
    answer = await call(at(course, "usage"));
  } catch (error) {
    setText(byId("usage-words"), error.status === 404 ? "" : error.message);
    byId("usage-csv").hidden = error.status === 404;
    return;
  }
  const items = answer.items ?? [];
  const held = (one) => one.gpu_hours ?? one.held_hours ?? 0;
  const total = items.reduce((sum, one) => sum + held(one), 0);
  const sessions = items.reduce((sum, one) => sum + (one.sessions ?? 0), 0);
  const budget = answer.budget;
  setText(byId("usage-words"), items.length ? `${hours(total)} GPU-hours${budget === null || budget === undefined ? "" : ` of ${short(budget)}`} in ${sessions.toLocaleString("en")} sessions` : "");
  const table = new Table(byId("usage"), {
    label: "after",
    columns: [
      { head: "Student", cell: (one) => one.person },
      { head: "Sessions", number: true, cell: (one) => (one.sessions ?? 0).toLocaleString("en") },
      { head: "GPU-hours", number: true, cell: (one) => hours(held(one)) },
      { head: "Used", number: true, cell: (one) => (one.used_hours === null || one.used_hours === undefined ? el("span.unknown", {}, "not measured") : hours(one.used_hours)) },
    ],
  });
  table.show([...items].sort((a, b) => held(b) - held(a)), "No session of this course has run yet.");
  chart([...items].filter(held).sort((a, b) => held(b) - held(a)).slice(0, MOST), held);
}

function chart(items, held) {
  const place = byId("usage-chart");
  place.hidden = !items.length;
  if (!items.length) return;
  const top = Math.max(...items.map(held), 0.001);
  place.setAttribute("aria-label", `GPU-hours by student, most first: ${items.map((one) => `${one.person} ${hours(held(one))}`).join("; ")}. The table has all.`);
  place.replaceChildren(
    ...items.map((one, position) => {
      const piece = el("div.column-used");
      piece.style.height = `${(100 * held(one)) / top}%`;
      return el("div.column", { title: `${one.person}: ${hours(held(one))} GPU-hours` }, el("span.column-number", {}, items.length <= 12 || position === 0 ? hours(held(one)) : ""), el("div.column-stack", {}, piece), el("span.column-name", {}, items.length <= 12 ? one.person : ""));
    }),
  );
}
