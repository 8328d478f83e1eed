// The checks of a course's readiness (portal.courses.definition.readiness).

import { call } from "../api.js";
import { el, fill, setText } from "../dom.js";
import { pill } from "../status.js";
import { count } from "../words.js";
import { at, names } from "./words.js";

const SIGNS = { good: ["ready", "ready"], warn: ["uncertain", "check"], bad: ["failed", "not ready"], unknown: ["unknown", "unknown"] };
const ORDER = ["bad", "warn", "unknown", "good"];

// Loads the checks of a course into `place`, and a summary into `words` if it is given.
export async function loadReadiness(course, place, words = null) {
  try {
    show(place, words, await call(at(course, "readiness")));
  } catch (error) {
    fill(place, el("p.portal-quiet", error.message));
  }
  place.removeAttribute("aria-busy");
}

function show(place, words, { points, demand, ready }) {
  const bad = points.filter((point) => point.sign === "bad").length;
  if (words) setText(words, ready ? "The course is ready." : `${count(bad, "problem")} to fix.`);
  const sorted = [...points].sort((a, b) => ORDER.indexOf(a.sign) - ORDER.indexOf(b.sign));
  fill(place, el("ul.plain.points", sorted.map((item) => point(item, item.key === "supply" ? bar(demand) : null))));
}

// The students whose sessions fit at once, and those whose sessions do not.
function bar({ students, seats }) {
  const lacks = Math.max(0, students - seats);
  const most = Math.max(students, seats, 1);
  return el("span.supply-bar", { "aria-hidden": "true" }, piece(Math.min(students, seats), most, "supply-has"), lacks ? piece(lacks, most, "supply-lacks") : null);
}

const piece = (part, most, look) => el(`span.${look}`, { style: { width: `${(100 * part) / most}%` } });

function point({ sign, message, people }, below) {
  const [state, word] = SIGNS[sign] ?? SIGNS.unknown;
  return el(
    "li.point",
    pill(state, word),
    el(
      "div",
      el("p", message),
      below,
      people?.length ? (people.length > 10 ? el("details", el("summary", count(people.length, "name")), el("p.entry-text", people.join(", "))) : el("p.portal-quiet", names(people, 10))) : null,
    ),
  );
}
