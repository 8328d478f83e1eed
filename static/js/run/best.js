// The metric that counts, and the point that is best by it, with the curves of the best points.

import { call } from "../api.js";
import { copies } from "../copy.js";
import { byId, differs, el, fill, setText } from "../dom.js";
import { Lines } from "./lines.js";
import { MetricChoice } from "./metric_choice.js";
import { differing, inWords, metric as number, value } from "./view.js";

const CURVES = 10; // of the best points
const HEIGHT = 190;

export class Best {
  // `onChange()` after each choice; `open(number)` shows a point.
  constructor(onChange, open) {
    this.place = byId("best");
    this.open = open;
    this.choice = new MetricChoice(byId("best-metric"), byId("best-goal"), onChange);
    this.plot = new Lines(byId("best-plot"), { title: "", height: HEIGHT, onOpen: (line) => open(Number(line.key)) });
    copies(byId("copy-metrics"), byId("metrics-code").textContent, "Copied.");
  }

  // The chosen metric, "" while there is none.
  get metric() {
    return this.choice.metric;
  }

  get lowest() {
    return this.choice.goal === "lowest";
  }

  // Offers the run's metrics. Returns whether the best point of another one must be read first.
  offer(run) {
    const before = this.metric;
    const { length } = this.choice.offer(run.metrics, [run.search]);
    byId("best-part").hidden = !length;
    byId("no-metrics").hidden = length > 0;
    return this.metric !== before;
  }

  // The best point of a run that was read with this metric; null: there is none.
  of(run) {
    return this.lowest ? run.lowest : run.highest;
  }

  // Names the best point.
  show(run) {
    const best = this.of(run);
    if (!differs(this.place, [this.metric, best])) return; // the button keeps the focus
    if (!best) {
      fill(this.place);
      return;
    }
    const names = Object.keys(best.parameters).sort();
    fill(
      this.place,
      el("button.point-open", { type: "button", onclick: () => this.open(best.number) }, `Point ${best.number}`),
      el("span", ` with ${this.metric} `, el("strong", number(best.value))),
      names.map((name) => el("span", ` · ${name} `, el("strong", value(best.parameters[name])))),
    );
  }

  // Draws the curves of the best points; if none has a curve, the value of each point.
  async draw(run) {
    const { metric, lowest } = this;
    if (!metric) return;
    const path = /** @type {const} */ (`runs/${encodeURIComponent(run.id)}`);
    const owner = run.mine ? undefined : run.user;
    const curves = await call(`${path}/curves`, { query: { owner, curve: metric, sort: lowest ? "metric" : "-metric", metric, limit: CURVES } });
    const best = this.of(run)?.number;
    let lines = curvesOf(curves.items, best);
    const drawn = lines.some(({ pairs }) => pairs.length > 1);
    if (!drawn) {
      const { metrics, items } = await call(`${path}/values`, { query: { owner } });
      const at = metrics.indexOf(metric);
      const valued = items.filter((item) => item.metrics[at] !== null).map((item) => [item.number, item.metrics[at]]);
      lines = [{ key: "", name: "Points", pairs: valued, dots: true }, { key: String(best), name: `Point ${best}`, pairs: valued.filter(([one]) => one === best), dots: true, best: true }];
    }
    if (metric !== this.metric || lowest !== this.lowest) return; // another one was chosen meanwhile
    setText(byId("best-words"), drawn ? (lines.length > 1 ? `the curves of the best ${lines.length}` : "its curve") : "among all points");
    await this.plot.show(lines, { title: `Best by ${metric}`, axis: drawn ? "step" : "point" });
  }
}

// Lines of a plot, from the API's curves of points: named by the parameters that differ.
export function curvesOf(items, best) {
  const names = differing(items.map(({ parameters }) => parameters));
  return items.map(({ number, pairs, parameters }) => ({ key: String(number), name: `Point ${number}`, about: inWords(parameters, names), pairs, best: number === best }));
}
