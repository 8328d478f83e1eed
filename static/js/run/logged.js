// The pictures and tables that a point has logged, in its panel.

import { apiUrl, call } from "../api.js";
import { differs, el, fill, trouble } from "../dom.js";
import { sections } from "./point.js";
import { textOf } from "./view.js";

const ROWS = 50; // of a table that are shown at first

sections.push({
  title: "Pictures and tables",
  show(place, point, run) {
    const seen = JSON.stringify([point.state, point.attempt]);
    if (place.dataset.seen !== seen || point.state === "running") load(place, point, run).catch((error) => fill(place, trouble(error.message)));
    place.dataset.seen = seen;
    return place.childElementCount > 0;
  },
});

async function load(place, point, run) {
  const path = /** @type {const} */ (`runs/${encodeURIComponent(run.id)}/points/${point.number}`);
  const owner = run.mine ? undefined : run.user;
  const logged = await call(`${path}/logged`, { query: { owner } });
  if (differs(place, logged)) {
    fill(
      place,
      logged.images.map(({ name, digest }) =>
        el("figure.logged", el("img", { src: String(apiUrl(`${path}/images/${encodeURIComponent(name)}`, { owner, digest })), alt: name, loading: "lazy" }), el("figcaption", name)),
      ),
      Object.entries(logged.tables).map(([name, rows]) => table(name, [...rows])),
    );
  }
  place.parentElement.hidden = !place.childElementCount;
}

function table(name, [head = [], ...rows]) {
  const line = (row) => el("tr", row.map((cell) => el("td", { class: typeof cell === "number" ? "number" : null }, cell === null ? "" : textOf(cell))));
  const body = el("tbody", rows.slice(0, ROWS).map(line));
  const more = el("button.btn.btn-sm.btn-outline-contrast", { type: "button" }, `Show all ${rows.length} rows`);
  more.addEventListener("click", () => {
    body.append(...rows.slice(ROWS).map(line));
    more.remove();
  });
  return el(
    "figure.logged",
    el("figcaption", name),
    el(
      "div.scroll-x",
      { tabindex: 0, role: "region", "aria-label": name },
      el("table.list", el("thead", el("tr", head.map((cell) => el("th", { scope: "col" }, cell === null ? "" : textOf(cell))))), body),
    ),
    rows.length > ROWS ? more : null,
  );
}
