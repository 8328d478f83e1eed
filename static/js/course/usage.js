// What a course has used, student by student: as columns, as a table, as a file.

import { call } from "../api.js";
import { byId, el, setText } from "../dom.js";
import { Table } from "../table.js";
import { count, hours, short } from "../words.js";
import { at } from "./words.js";

const MOST = 30; // columns

export async function usage(course) {
  let answer;
  try {
    answer = await call(at(course, "usage"));
  } catch (error) {
    setText(byId("usage-words"), error.message);
    return;
  }
  const items = answer.items ?? [];
  const held = (one) => one.gpu_hours;
  const total = answer.gpu_hours;
  const sessions = items.reduce((sum, one) => sum + one.sessions, 0);
  const budget = answer.budget;
  setText(byId("usage-words"), items.length ? `${hours(total)} GPU-hours${budget === null ? "" : ` of ${short(budget)}`} in ${count(sessions, "session")}${answer.simulated ? "; their use is simulated" : ""}` : "");
  const table = new Table(byId("usage"), {
    label: "after",
    columns: [
      { head: "Who", cell: (one) => [one.person, one.role === "student" ? null : el("span.portal-quiet", {}, ` ${one.role ?? "no longer in it"}`)] },
      { head: "Sessions", number: true, cell: (one) => one.sessions.toLocaleString("en") },
      { head: "GPU-hours", number: true, cell: (one) => hours(held(one)) },
      { head: "Used", number: true, cell: (one) => (one.used_hours === null ? el("span.unknown", {}, "not measured") : hours(one.used_hours)) },
    ],
  });
  const used = items.filter((one) => one.sessions);
  table.show(used.sort((a, b) => held(b) - held(a)), "No session of this course has run yet.");
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
