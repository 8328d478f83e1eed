// What differs between two texts or two versions, as the API says it.

import { el, hidden } from "../dom.js";
import { count } from "../words.js";

const SIGNS = { same: "  ", added: "+ ", removed: "− " };
const WORDS = { added: "added: ", removed: "removed: " };
const AROUND = 3; // equal lines that are shown beside a difference

// The lines (portal.catalog.versions.comparison.LineChange); of long equal parts only the ends.
export function lines(changes, label) {
  const near = new Set();
  changes.forEach((line, at) => {
    if (line.change === "same") return;
    for (let other = at - AROUND; other <= at + AROUND; other += 1) near.add(other);
  });
  if (!near.size) return el("p.portal-quiet", {}, "The definitions are the same.");
  const shown = [];
  let left = 0;
  const skipped = () => {
    if (left) shown.push(el("span.diff-line.diff-skipped", {}, `  ${count(left, "equal line")}`));
    left = 0;
  };
  changes.forEach((line, at) => {
    if (!near.has(at)) {
      left += 1;
      return;
    }
    skipped();
    shown.push(el(`span.diff-line.diff-${line.change}`, {}, el("span", { "aria-hidden": "true" }, SIGNS[line.change]), WORDS[line.change] ? hidden(WORDS[line.change]) : null, `${line.text}\n`));
  });
  skipped();
  return el("pre.diff", { tabindex: "0", role: "region", "aria-label": label }, shown);
}

// Packages that are not the same in both (PackageChange); null: nobody knows them of one of the two.
export function packages(changes) {
  if (!changes) return el("p.portal-quiet", {}, "The packages of one of the two are not known: it was never built or tested.");
  if (!changes.length) return el("p.portal-quiet", {}, "The packages are the same.");
  return el(
    "ul.package-changes",
    { "aria-label": "Packages" },
    changes.map(({ name, change, old, new: now }) =>
      el(`li.diff-${change}`, {}, el("strong", {}, name), change === "changed" ? ` ${old} → ${now}` : ` ${change} (${now || old || "no version"})`),
    ),
  );
}
