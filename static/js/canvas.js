// What all plots with uPlot share: the library, the theme's colours, the size, and the words for screen readers.

// uPlot comes from npm at installation (deploy/install.sh), and is loaded with the first plot.
export const library = () => import("../vendor/uplot/uPlot.esm.js").then((module) => module.default);
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function axisLook() {
  const lines = { stroke: color("--bs-border-color-translucent"), width: 1 };
  return { stroke: color("--bs-body-color"), grid: lines, ticks: lines, font: `12px ${color("--portal-font")}` };
}

// A canvas has colours and a width of its own: calls `draw()` when the theme changes, and fits `plotOf()` to its place.
export function follow(place, height, draw, plotOf) {
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  new ResizeObserver(() => place.clientWidth && plotOf()?.setSize({ width: place.clientWidth, height })).observe(place);
}

export function describe(place, words) {
  const canvas = place.querySelector("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", words);
}
