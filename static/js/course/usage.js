// The usage of a course by student: as a chart, as a table, as a file.

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
  const held = (usage) => usage.gpu_hours;
  const total = answer.gpu_hours;
  const sessions = items.reduce((sum, item) => sum + item.sessions, 0);
  const budget = answer.budget;
  setText(byId("usage-words"), items.length ? `${hours(total)} GPU-hours${budget === null ? "" : ` of ${short(budget)}`} in ${count(sessions, "session")}${answer.simulated ? "; GPU use is simulated" : ""}` : "");
  const table = new Table(byId("usage"), {
    label: "after",
    columns: [
      { head: "Name", cell: ({ person, role }) => [person, role === "student" ? null : el("span.portal-quiet", ` ${role ?? "former member"}`)] },
      { head: "Sessions", number: true, cell: (item) => item.sessions.toLocaleString("en") },
      { head: "GPU-hours", number: true, cell: (item) => hours(held(item)) },
      { head: "Used", number: true, cell: (item) => (item.used_hours === null ? el("span.unknown", "not measured") : hours(item.used_hours)) },
    ],
  });
  const used = items.filter((item) => item.sessions);
  table.show(used.sort((a, b) => held(b) - held(a)), "This course has had no sessions.");
  chart([...items].filter(held).sort((a, b) => held(b) - held(a)).slice(0, MOST), held);
}

function chart(items, held) {
  const place = byId("usage-chart");
  place.hidden = !items.length;
  if (!items.length) return;
  const top = Math.max(...items.map(held), 0.001);
  place.setAttribute("aria-label", `GPU-hours by student, highest first: ${items.map((item) => `${item.person} ${hours(held(item))}`).join("; ")}. The table lists all.`);
  place.replaceChildren(
    ...items.map((item, position) => {
      const piece = el("div.column-used", { style: { height: `${(100 * held(item)) / top}%` } });
      return el("div.column", { title: `${item.person}: ${hours(held(item))} GPU-hours` }, el("span.column-number", items.length <= 12 || position === 0 ? hours(held(item)) : ""), el("div.column-stack", piece), el("span.column-name", items.length <= 12 ? item.person : ""));
    }),
  );
}
