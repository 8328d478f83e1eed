// Axes of parallel coordinates: where a value stands between the bottom (0) and the top (1).

const CATEGORIES = 24; // texts that stand apart on one axis
const STEPS = ["step", "epoch"]; // how far a point has come: no metrics
const WIDE = 100; // a positive axis with a wider ratio is logarithmic

export const measured = (metrics) => metrics.filter((name) => !STEPS.includes(name));

// An axis for `values` (numbers, texts, booleans, null): {name, at(value) => 0…1 or null, ticks: [[0…1,
// words]], numbers}. `numbers`: it may be limited by a minimum and a maximum, and has `values`, in their order.
export function axis(name, values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.every((value) => typeof value === "number") && known.length ? numeric(name, known) : categories(name, known);
}

function numeric(name, known) {
  let least = known.reduce((a, b) => Math.min(a, b));
  let most = known.reduce((a, b) => Math.max(a, b));
  const log = least > 0 && most / least > WIDE;
  const scale = log ? Math.log10 : (value) => value;
  const back = log ? (value) => 10 ** value : (value) => value;
  const [from, to] = [scale(least), scale(most)];
  const at = (value) => (typeof value === "number" ? (to === from ? 0.5 : (scale(value) - from) / (to - from)) : null);
  const middle = back((from + to) / 2);
  const marks = to === from ? [least] : [least, middle, most];
  const values = [...new Set(known)].sort((a, b) => a - b);
  return { name, numbers: true, log, at, values, value: (share) => back(from + share * (to - from)), ticks: marks.map((mark) => [at(mark), short(mark)]) };
}

function categories(name, known) {
  const texts = [...new Set(known.map(String))].sort(new Intl.Collator("en", { numeric: true }).compare);
  const places = new Map(texts.map((text, index) => [text, texts.length === 1 ? 0.5 : index / (texts.length - 1)]));
  const at = (value) => (value === null || value === undefined ? null : (places.get(String(value)) ?? null));
  const ticks = [...places].filter((_, index) => texts.length <= CATEGORIES || index === 0 || index === texts.length - 1);
  return { name, numbers: false, log: false, at, texts, ticks: ticks.map(([text, share]) => [share, text]) };
}

// At most four digits.
export const short = (number) => {
  const size = Math.abs(number);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return number.toExponential(1).replace("e+", "e");
  return Number(number.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
};

// The axes of a run's values: parameters that differ, then metrics; at most `most` of each, and `metric`.
export function axesOf({ parameters, metrics, items }, most, metric) {
  const made = (names, kind) =>
    names.map((name, index) => axis(name, items.map((item) => item[kind][index]))).map((made, index) => ({ ...made, kind, index }));
  const varied = made(parameters, "parameters").filter((each) => each.numbers ? each.ticks.length > 1 : each.texts.length > 1);
  const chosen = (varied.length ? varied : made(parameters, "parameters")).slice(0, most);
  const measuredAxes = made(metrics, "metrics").filter(({ name }) => measured([name]).length).filter((each) => each.ticks.length > 1).filter((each, at) => at < most || each.name === metric);
  return [...chosen, ...measuredAxes];
}
