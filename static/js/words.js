// Numbers and times in words. Null is "unknown", never 0.

export const UNKNOWN = "unknown";
const known = (value) => value !== null && value !== undefined;

// Each state of a GPU (portal.models.cluster.gpu.GpuState), in the order of the bar and the legend.
export const GPU_STATES = {
  busy: { word: "busy", text: "in use by a job" },
  idle: { word: "idle", text: "held by a job but not used" },
  allocated: { word: "allocated", text: "held by a job; use unknown" },
  free: { word: "free", text: "available to jobs" },
  off: { word: "off", text: "switched on when needed" },
  drained: { word: "drained", text: "accepts no new jobs" },
  down: { word: "down", text: "its node is down or does not answer" },
  unknown: { word: "unknown", text: "Slurm reports no state" },
};
const SYMBOLS = { allocated: "•", off: "◦", drained: "–", down: "×", unknown: "?" };

// The text of a GPU's cell: its utilisation if known, else the state's sign.
export function gpuSign(gpu, dense = false) {
  if (!dense && (gpu.state === "busy" || gpu.state === "idle") && known(gpu.utilization)) {
    return String(Math.round(gpu.utilization));
  }
  return SYMBOLS[gpu.state] ?? "";
}

// One GPU for a screen reader.
export function gpuWords(gpu) {
  const words = [`GPU ${gpu.index}: ${GPU_STATES[gpu.state].word}`];
  if (known(gpu.utilization)) words.push(`${Math.round(gpu.utilization)} %`);
  if (gpu.mine) words.push("yours");
  else if (gpu.user) words.push(gpu.user);
  if (gpu.job_id) words.push(`job ${gpu.job_id}`);
  return words.join(", ");
}

export const percent = (value) => (known(value) ? `${Math.round(value)} %` : UNKNOWN);
export const share = (value) => (known(value) ? `${Math.round(100 * value)} %` : UNKNOWN);

// "1 job", "2 jobs", "1,234 jobs"
export const count = (number, noun, many = `${noun}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? noun : many}`;

// Watts: "300 W", "4.5 kW"
export const power = (watts) => (watts < 1000 ? `${short(watts)} W` : `${short(watts / 1000)} kW`);

// MiB: "512 MB", "32 GB", "1.5 TB"
export function memory(mib) {
  if (!known(mib)) return UNKNOWN;
  if (mib < 1024) return `${Math.round(mib)} MB`;
  const gib = mib / 1024;
  if (gib < 1024) return `${short(gib)} GB`;
  return `${short(gib / 1024)} TB`;
}

// At most one decimal, and none for integers and large numbers.
export const short = (number) =>
  number.toLocaleString("en", { maximumFractionDigits: number < 100 ? 1 : 0 });

// GPU-hours "used of held"; GPU-minutes below one hour.
export function gpuTime(used, held) {
  const [factor, unit] = (held ?? used) < 1 ? [60, "GPU-minutes"] : [1, "GPU-hours"];
  const parts = [used, held].filter(known).map((value) => short(factor * value));
  return `${parts.join(" of ")} ${unit}`;
}

export const hours = (value) =>
  known(value) ? value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 }) : UNKNOWN;

// Seconds: "45 s", "12 min", "1 h 5 min", "2 h", "3 d 4 h"
export function duration(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const all = Math.max(0, Math.floor(seconds));
  const days = Math.floor(all / 86400);
  const h = Math.floor((all % 86400) / 3600);
  const min = Math.floor((all % 3600) / 60);
  if (days) return h ? `${days} d ${h} h` : `${days} d`;
  if (h) return min ? `${h} h ${min} min` : `${h} h`;
  if (min) return `${min} min`;
  return `${all} s`;
}

const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

// Unix seconds: "14:05" today, "22 Nov, 14:05", "3 Jan 2025, 14:05"
export function clock(at) {
  if (!known(at)) return UNKNOWN;
  const date = new Date(at * 1000);
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return TIME.format(date);
  const day = (date.getFullYear() === now.getFullYear() ? DAY : YEAR).format(date);
  return `${day}, ${TIME.format(date)}`;
}
export const exactly = (at) => (known(at) ? FULL.format(new Date(at * 1000)) : "");
export const day = (at) => YEAR.format(new Date(at * 1000));

export const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

// "0–3, 7"
export function ranges(numbers) {
  const parts = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}
