// Comparison of two to four runs, whose ids are in the page's address.

import { call } from "../api.js";
import { byId, el, fill, setText, showTrouble } from "../dom.js";
import { measured } from "./axes.js";
import { curvesOf } from "./best.js";
import { Lines, sample } from "./lines.js";
import { MetricChoice } from "./metric_choice.js";
import { Picker } from "./picker.js";
import { countWords, inWords, metric, runPage, textOf } from "./view.js";
import { pill } from "../status.js";
import { rowsTable } from "../table.js";
import { count, exactly } from "../words.js";

const POINTS = 10; // of each run, in the plot
const HEIGHT = 280;
const given = new URLSearchParams(window.location.search);
const query = Object.fromEntries([...given].filter(([name, id]) => "abcd".includes(name) && id));
const choice = new MetricChoice(byId("compare-metric"), byId("compare-goal"), () => show().catch(failed));
const address = (run, number = null) => {
  const page = runPage(run);
  return number === null ? page : `${page}${page.includes("?") ? "&" : "?"}point=${number}`;
};
let comparison;
let plot;
let picker;

async function load() {
  if (!query.a || !query.b) throw new Error("Choose two to four runs in the list of your runs.");
  comparison = await call("run-comparison", { query });
  document.title = document.title.replace(/^[^–]*/, `${comparison.runs.map((run) => run.name).join(", ")} `);
  const names = choice.offer(comparison.metrics.map(({ name }) => name), comparison.searches);
  byId("curves-part").hidden = !names.length;
  await show();
}

async function show() {
  fill(byId("comparison"), ...tables());
  if (choice.metrics.length) await curves();
}

function tables() {
  const { runs, facts: differing, parameters, metrics: all } = comparison;
  const best = all.filter(({ name }) => measured([name]).length);
  const differences = [
    ...differing.map(({ name, values }) => [name.replace("_", " "), values.map((text) => text || "–")]),
    ...parameters.map(({ name, values }) => [name, ...values.map(list)]),
  ];
  return [
    table("The runs", "Runs", [
      ...(runs.some(({ user }) => user !== runs[0].user) ? [["User", ...runs.map(({ user }) => user)]] : []),
      ["State", ...runs.map((run) => pill(run.state))],
      ["Points", ...runs.map(countWords)],
      ["Started", ...runs.map((run) => exactly(run.created_at))],
      ["Ended", ...runs.map((run) => exactly(run.ended_at) || "–")],
    ]),
    differences.length
      ? table("Differences", "Differences", differences)
      : el("section.part", el("h2", "Differences"), el("p.portal-quiet", "The runs have the same source, environment, resources and parameters.")),
    best.length
      ? table(
          "Best points",
          "Best points",
          best.map((each) => [`${each.name}, ${choice.goalOf(each.name)}`, ...each[choice.goalOf(each.name)].map(point)]),
        )
      : null,
  ];
}

// A point's value, with a link to it and its parameters.
function point(best, at) {
  if (!best) return "–";
  const words = inWords(best.parameters);
  return el("span", el("strong", metric(best.value)), " ", el("a", { href: address(comparison.runs[at], best.number) }, `point ${best.number}`), words ? el("span.portal-quiet.compare-parameters", words) : null);
}

const list = (given) => (given.length ? `${given.map(textOf).join(", ")}${given.length === 20 ? ", …" : ""}` : "–");

function table(title, label, rows) {
  const id = `compare-${label.toLowerCase().replace(" ", "-")}`;
  return el(
    "section.part",
    { "aria-labelledby": id },
    el("h2", { id }, title),
    el(
      "div.compare-scroll",
      { tabindex: 0, role: "region", "aria-label": `${label}, table` },
      rowsTable({ "aria-labelledby": id }, ["", ...comparison.runs.map((run) => el("a", { href: address(run) }, run.name))], rows),
    ),
  );
}

// The curves of the best points of each run; runs differ by colour and dashes.
async function curves() {
  const { runs } = comparison;
  const { metric: chosen, goal } = choice;
  const sort = goal === "lowest" ? "metric" : "-metric";
  const pages = await Promise.all(
    runs.map((run) =>
      call(`runs/${encodeURIComponent(run.id)}/curves`, { query: { owner: run.user, curve: chosen, sort, metric: chosen, limit: POINTS } }),
    ),
  );
  if (choice.metric !== chosen || choice.goal !== goal) return; // another one was chosen meanwhile
  const lines = pages.flatMap((page, kind) =>
    curvesOf(page.items, page.items[0]?.number).map((line) => ({ ...line, key: `${kind} ${line.key}`, name: `${runs[kind].name}, point ${line.key}`, kind })),
  );
  const open = (key) => {
    const [kind, number] = key.split(" ");
    window.location.assign(address(runs[Number(kind)], number));
  };
  if (!plot) {
    const place = el("div");
    byId("curves").append(place);
    plot = new Lines(place, { title: chosen, height: HEIGHT, onPoint: (line, words) => picker.show(line.key, words), onOpen: (line) => open(line.key) });
    picker = new Picker(byId("curves"), { id: "compare-point", label: "Highlight", onPick: (key) => picker.show(key, plot.highlight(key)), onOpen: open });
  }
  setText(byId("curves-words"), count(lines.length, "point"));
  fill(byId("curves-legend"), runs.map(({ name }, kind) => el("span", sample({ kind }), name)));
  await plot.show(lines, { title: chosen });
  picker.offer(lines);
}

const failed = (error) => {
  byId("comparison").removeAttribute("aria-busy");
  showTrouble(error);
};
load()
  .then(() => byId("comparison").removeAttribute("aria-busy"))
  .catch(failed);
