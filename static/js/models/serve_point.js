// "Serve…" in the actions of a run, for its best point, and in the panel of each point that has succeeded.

import { el } from "../dom.js";
import { actionButton, actions } from "../run/actions.js";
import { sections } from "../run/point.js";
import { serve } from "./serve.js";

let best = null; // the number of the best point of the run that is shown

// Names the best point, by the metric that counts on the page.
export function bestIs(number) {
  best = number;
}

actions.push((run) => (run.mine && run.counts.succeeded ? actionButton(best === null ? "Serve a point…" : "Serve best point…", () => serve({ run: run.id, point: best ?? 0 })) : null));

sections.push({
  title: "Serve",
  show(place, point, run) {
    if (!run.mine || point.state !== "succeeded") return false;
    if (place.dataset.point === String(point.number)) return true;
    place.dataset.point = String(point.number);
    place.replaceChildren(
      el("p.portal-quiet", "What this point has written can answer at an address of its own, in jobs that follow each other."),
      actionButton(`Serve point ${point.number}…`, () => serve({ run: run.id, point: point.number })),
    );
    return true;
  },
});
