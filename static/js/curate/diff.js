// Differences between two texts or two versions, from the API.

import { el, hidden } from "../dom.js";
import { count } from "../words.js";

const SIGNS = { same: "  ", added: "+ ", removed: "− " };
const WORDS = { added: "added: ", removed: "removed: " };
const AROUND = 3; // equal lines shown before and after a difference

// The changed lines (portal.catalog.versions.comparison.LineChange); long equal parts are shortened.
export function lines(changes, label) {
  const near = new Set();
  changes.forEach((line, at) => {
    if (line.change === "same") return;
    for (let other = at - AROUND; other <= at + AROUND; other += 1) near.add(other);
  });
  if (!near.size) return el("p.portal-quiet", "The definitions are the same.");
  const shown = [];
  let left = 0;
  const skipped = () => {
    if (left) shown.push(el("span.diff-line.diff-skipped", `  ${count(left, "unchanged line")}`));
    left = 0;
  };
  changes.forEach((line, at) => {
    if (!near.has(at)) {
      left += 1;
      return;
    }
    skipped();
    shown.push(el(`span.diff-line.diff-${line.change}`, el("span", { "aria-hidden": "true" }, SIGNS[line.change]), WORDS[line.change] ? hidden(WORDS[line.change]) : null, `${line.text}\n`));
  });
  skipped();
  return el("pre.diff", { tabindex: "0", role: "region", "aria-label": label }, shown);
}

// Packages that differ (PackageChange); null: unknown for at least one version.
export function packages(changes) {
  if (!changes) return el("p.portal-quiet", "Package changes are unknown: one of the versions was never built or tested.");
  if (!changes.length) return el("p.portal-quiet", "The packages are the same.");
  return el(
    "ul.package-changes",
    { "aria-label": "Packages" },
    changes.map(({ name, change, old, new: now }) =>
      el(`li.diff-${change}`, el("strong", name), change === "changed" ? ` ${old} → ${now}` : ` ${change} (${now || old || "no version"})`),
    ),
  );
}
