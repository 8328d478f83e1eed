// Use of GPUs and memory by a point over time; of several ranks, a line for the GPU of each.

import { sections } from "./point.js";
import { seldom } from "./views.js";
import { showUse } from "../use.js";

const EVERY = 60000; // the service takes a sample a minute

class PointUse {
  constructor(place, run, number) {
    this.measured = false;
    this.update = seldom(EVERY, async () => {
      const owner = run.mine ? undefined : run.user;
      this.measured = await showUse(place, `runs/${encodeURIComponent(run.id)}/points/${number}`, { owner });
      place.parentElement.hidden = !this.measured;
    });
  }
}

let shown = null; // the use in the panel

sections.push({
  title: "Use over time",
  show(place, point, run) {
    shown ??= new PointUse(place, run, point.number);
    if (point.started_at !== null) shown.update(run, point.state).catch(() => {}); // what is shown stays
    return shown.measured;
  },
  close() {
    shown = null;
  },
});
