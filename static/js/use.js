// GPUs and memory of a job over time, as plots.

import { call } from "./api.js";
import { el, fill } from "./dom.js";
import { Plot } from "./plots.js";
import { clock, memory, percent } from "./words.js";

const MEMORY = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576];
// Of the GPUs of a job; further ones have the same colours, and dashes.
const COLORS = ["--plot-one", "--plot-two", "--plot-three", "--plot-four", "--plot-five"];
const DASHES = [undefined, [8, 3], [3, 3], [8, 3, 2, 3], [1, 3]];
const LINE = { color: "--plot-one", fill: "--plot-fill" };
/** @type {[("gpu" | "gpu_memory" | "memory"), any][]} */
export const PLOTS = [
  ["gpu", { title: "GPU utilisation", series: [{ label: "mean of its GPUs", ...LINE }], words: percent, steps: [10, 20, 25, 50, 100], most: 100 }],
  ["gpu_memory", { title: "GPU memory", series: [{ label: "of all its GPUs", ...LINE }], words: memory, steps: MEMORY }],
  ["memory", { title: "Memory", series: [{ label: "as the session reports it", ...LINE }], words: memory, steps: MEMORY }],
];

export const unmeasured = () => el("p.portal-quiet", {}, "No use was measured. The portal measures running jobs once a minute.");

// `path` is that of the job or session in the API.
/** @param {`jobs/${string}` | `sessions/${string}` | `runs/${string}/points/${string}`} path */
export async function showUse(place, path, query = {}) {
  /** @type {{ parts: any[] }} */
  const { parts } = await call(/** @type {`jobs/${string}/use`} */ (`${path}/use`), { query });
  const shown = PLOTS.filter(([name]) => parts.some((part) => part[name].some((value) => value !== null)));
  if (!shown.length) {
    fill(place, unmeasured());
    return false;
  }
  const of = { began_at: parts[0].began_at, last_at: parts.at(-1).last_at, sources: parts.map((part) => part.sources).join() };
  await drawUse(place, of, shown.map(([name, given]) => (name === "gpu" && gpusOf(parts)) || { ...given, values: together(parts, (part) => part[name]) }));
  return true;
}

// A line for each GPU of a job with several, or null.
function gpusOf(parts) {
  const names = [...new Set(parts.flatMap((part) => Object.keys(part.gpus)))].sort(inOrder);
  if (!names.length) return null;
  const series = names.map((label, at) => ({ label, width: 1.5, color: COLORS[at % COLORS.length], dash: DASHES[Math.floor(at / COLORS.length) % DASHES.length] }));
  const lines = names.map((name) => together(parts, (part) => part.gpus[name] ?? part.gpu.map(() => null)));
  return { ...PLOTS[0][1], title: "GPU utilisation, each GPU", series, values: [lines[0][0], ...lines.map(([, values]) => values)] };
}
const { compare: inOrder } = new Intl.Collator("en", { numeric: true });

// Plots of the use of a job or run, each with its values.
export async function drawUse(place, { began_at, last_at, sources }, shown) {
  const range = [began_at, Math.max(last_at, began_at + 60)];
  const plots = shown.map((given) => {
    const chart = el("div.plot.plot-use");
    const plot = new Plot(chart, { ...given, height: 130, onZoom: () => {} });
    return { figure: el("figure", el("figcaption", given.title), chart), show: () => plot.show(given.values, range) };
  });
  fill(
    place,
    el("div.plots.plots-use", plots.map(({ figure }) => figure)),
    el(
      "p.portal-quiet",
      `Measured until ${clock(last_at)}. `,
      sources.split(",").includes("simulated") ? el("span.badge.portal-simulated", "simulated readings") : null,
    ),
  );
  await Promise.all(plots.map(({ show }) => show()));
}

// Times and values of all parts; between two of them, the portal's service was away.
function together(parts, valuesOf) {
  const times = [];
  const values = [];
  for (const part of parts) {
    if (times.length) {
      times.push(part.began_at);
      values.push(null);
    }
    valuesOf(part).forEach((value, at) => {
      times.push(part.began_at + (at + 0.5) * part.seconds);
      values.push(value);
    });
  }
  return [times, values];
}
