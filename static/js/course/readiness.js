// The checks of a course's readiness (portal.courses.definition.readiness).

import { el, fill, setText } from "../dom.js";
import { pill } from "../status.js";
import { count } from "../words.js";
import { names } from "./words.js";

const SIGNS = { good: ["ready", "ready"], warn: ["uncertain", "check"], bad: ["failed", "not ready"], unknown: ["unknown", "unknown"] };
const ORDER = ["bad", "warn", "unknown", "good"];

// Fills `place`, and `words` with a summary if it is given.
export function showReadiness(place, words, { points, demand, ready }) {
  const bad = points.filter((point) => point.sign === "bad").length;
  if (words) setText(words, ready ? "The course is ready." : `${count(bad, "problem")} to fix.`);
  const sorted = [...points].sort((a, b) => ORDER.indexOf(a.sign) - ORDER.indexOf(b.sign));
  fill(
    place,
    demand?.students ? bars(demand) : null,
    el("ul.plain.points", {}, sorted.map(point)),
  );
}

function bars(demand) {
  const gpus = demand.gpu_type ? `${demand.gpu_type} GPUs` : "GPUs";
  return el(
    "div.supply-bars",
    {},
    demand.gpus ? line(gpus, demand.gpus, demand.gpus_there, `${demand.gpus_there} available, ${demand.gpus_free} free now`) : null,
    line("Concurrent sessions", demand.students, demand.seats, `${demand.seats} fit`),
  );
}

// A line with a bar: the demand against the supply.
function line(what, wanted, there, words) {
  const lacks = Math.max(0, wanted - there);
  const most = Math.max(wanted, there, 1);
  return el(
    "div.supply-line",
    {},
    el("p", {}, el("strong", {}, `${what}: `), `${wanted.toLocaleString("en")} needed, ${words}`, lacks ? el("span.seat-bad", {}, `; ${lacks.toLocaleString("en")} missing`) : null),
    el("span.supply-bar", { "aria-hidden": "true" }, piece(Math.min(wanted, there), most, "supply-has"), lacks ? piece(lacks, most, "supply-lacks") : null),
  );
}

function piece(part, most, look) {
  const made = el(`span.${look}`);
  made.style.width = `${(100 * part) / most}%`;
  return made;
}

function point({ sign, message, people }) {
  const [state, word] = SIGNS[sign] ?? SIGNS.unknown;
  return el(
    "li.point",
    {},
    pill(state, word),
    el(
      "div",
      {},
      el("p", {}, message),
      people?.length ? (people.length > 10 ? el("details", {}, el("summary", {}, count(people.length, "name")), el("p.entry-text", {}, people.join(", "))) : el("p.portal-quiet", {}, names(people, 10))) : null,
    ),
  );
}
