// Benchmark results as bars: images per second by GPU type, number of GPUs and precision.

import { axisLook, color, describe, follow, library } from "./canvas.js";

const HEIGHT = 240;

const where = (row) => (row.gpu_type ? `${row.gpus} × ${row.gpu_type}` : "CPUs");

// `rows` are Measured; each bar belongs to the series of real or of simulated GPUs.
export async function drawMeasured(place, rows) {
  const Library = await library();
  const several = new Set(rows.map((row) => row.benchmark)).size > 1;
  const names = rows.map((row) => [where(row), row.precision, several ? row.benchmark : ""].filter(Boolean).join("\n"));
  const at = rows.map((_, index) => index);
  const pick = (simulated) => rows.map((row) => (row.simulated === simulated ? row.images_per_second : null));
  const data = [at, pick(false), pick(true)];
  let plot = null;

  function draw() {
    plot?.destroy();
    const axis = axisLook();
    const bars = Library.paths.bars({ size: [0.6, 70] });
    const value = (_, number) => (number === null || number === undefined ? "–" : number.toLocaleString("en", { maximumFractionDigits: 1 }));
    const series = (label, stroke, dash) => ({ label, stroke: color(stroke), fill: dash ? undefined : color(stroke), width: 2, dash, paths: bars, points: { show: false }, value });
    plot = new Library(
      {
        width: place.clientWidth || 300,
        height: HEIGHT,
        cursor: { drag: { x: false, y: false } },
        scales: { x: { time: false, range: [-0.7, rows.length - 0.3] }, y: { range: (_, __, most) => [0, Math.max(1, (most ?? 0) * 1.1)] } },
        axes: [
          { ...axis, grid: { show: false }, size: several ? 64 : 48, splits: () => at, values: (_, ticks) => ticks.map((tick) => names[tick] ?? "") },
          { ...axis, size: 60, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) },
        ],
        series: [
          { label: "Hardware", value: (_, index) => (names[index] ?? "").replaceAll("\n", ", ") },
          { ...series("measured", "--portal-accent"), show: rows.some((row) => !row.simulated) },
          { ...series("simulated GPUs", "--portal-quiet", [5, 4]), show: rows.some((row) => row.simulated) },
        ],
      },
      data,
      place,
    );
    describe(place, words(rows));
  }

  draw();
  follow(place, HEIGHT, draw, () => plot);
}

// Text alternative of the chart; the table below it has every number.
function words(rows) {
  const best = rows.reduce((best, row) => (row.images_per_second > best.images_per_second ? row : best));
  const most = Math.round(best.images_per_second).toLocaleString("en");
  return `Images per second. Highest: ${most} on ${where(best)} in ${best.precision}${best.simulated ? ", simulated" : ""}. The table below has all values.`;
}
