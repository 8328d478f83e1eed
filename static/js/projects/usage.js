// What a project has left, in the portal and in Slurm, and who used it: as a plot and as tables.

import { apiUrl, call, now } from "../api.js";
import { byId, el, fill, setText } from "../dom.js";
import { facts } from "../panel.js";
import { Plot } from "../plots.js";
import { Poller } from "../poller.js";
import { Table } from "../table.js";
import { count, day, duration, hours, short } from "../words.js";
import { budgetWords, pathOf } from "./words.js";

const EVERY = 60000;
const PERIODS = { day: 30, week: 26 }; // shown
const SECONDS = { day: 86400, week: 7 * 86400 };
const LOOKS = [["--plot-one"], ["--plot-two", [8, 3]], ["--plot-three", [3, 3]], ["--plot-four", [8, 3, 2, 3]], ["--plot-five", [1, 3]], ["--plot-total", [12, 4]]];
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
const UNITS = { "gres/gpu": "GPU-hours", cpu: "CPU-hours", node: "node-hours", mem: "MiB-hours", billing: "hours of billing" };
const FIRST = { budget: "the portal’s budget", slurm: "Slurm’s limit", end: "the project" };
const RESETS = { DAILY: "each day", WEEKLY: "each week", MONTHLY: "each month", QUARTERLY: "each quarter", YEARLY: "each year" };
const unitOf = (tres) => UNITS[tres] ?? (tres.startsWith("gres/gpu:") ? `GPU-hours (${tres.slice(9)})` : `hours of ${tres}`);

// Shows and follows both, for a project of this name.
export function showUsage(name) {
  const period = /** @type {HTMLSelectElement} */ (byId("usage-period"));
  const members = new Table(byId("usage"), {
    label: "usage-title",
    columns: [
      { head: "User", cell: ({ person, others }) => person || count(others, "other user") },
      { head: "GPU-hours", number: true, cell: ({ hours: held }) => hours(held) },
    ],
  });
  const chart = el("div.plot");
  const plot = new Plot(chart, { title: "GPU-hours by member", words: short, steps: STEPS, height: 190, onZoom: () => {} });
  byId("usage-plot").append(chart);

  async function load() {
    const query = { period: period.value, last: PERIODS[period.value] };
    byId("usage-csv").href = apiUrl(`${pathOf(name)}/usage.csv`, query);
    // Slurm may take its time: the plot does not wait for it.
    const money = call(/** @type {`projects/${string}/money`} */ (`${pathOf(name)}/money`)).then(
      (found) => fill(byId("money"), moneyParts(found)),
      ({ message }) => fill(byId("money"), el("p.portal-quiet", message)),
    );
    const usage = await call(/** @type {`projects/${string}/usage`} */ (`${pathOf(name)}/usage`), { query });
    await Promise.all([draw(usage), money]);
  }

  async function draw({ periods, times, members: most, others, of_others: rest, hours: all }) {
    const lines = [...most, ...(others ? [{ ...rest, others }] : [])];
    const nameOf = ({ person }) => person || count(others, "other user");
    setText(byId("usage-words"), `${hours(all)} GPU-hours in ${count(periods.length, period.value)} of UTC`);
    members.show(lines, `Nobody has used a GPU for this project in these ${period.value}s.`);
    byId("usage-plot").hidden = byId("usage-numbers").hidden = !lines.length;
    if (!lines.length) return;
    fill(byId("usage-rows"), numbers(periods, lines, nameOf));
    const length = SECONDS[period.value];
    const series = lines.map((line, at) => ({ label: nameOf(line), color: LOOKS[at][0], dash: LOOKS[at][1] }));
    const range = [times[0], times.at(-1) + length];
    await plot.show([times.map((at) => at + length / 2), ...lines.map(({ values }) => values)], range, series);
  }

  const poller = new Poller({ every: EVERY, ask: load, onTrouble: (error) => setText(byId("usage-words"), error?.message ?? "") });
  period.addEventListener("change", () => poller.now());
  poller.now();
}

// All values that the plot shows: a row for each period, a column for each line.
function numbers(periods, lines, nameOf) {
  const heads = ["Period (UTC)", ...lines.map(nameOf)];
  return el(
    "table.table.table-sm",
    el("caption.visually-hidden", "GPU-hours by period and member"),
    el("thead", el("tr", heads.map((head, at) => el("th", { scope: "col", class: at ? "number" : null }, head)))),
    el("tbody", periods.map((name, at) => el("tr", el("th", { scope: "row" }, name), lines.map(({ values }) => el("td.number", hours(values[at])))))),
  );
}

function moneyParts(money) {
  const { account, slurm, problem, age, half_life: half, resets, first, first_at: at, ends } = money;
  const limits = slurm.map((use) => [`Slurm’s account ${use.account}`, `${slurmWords(use)}${money.enforced === false ? ". Slurm counts this limit and does not enforce it" : ""}`]);
  const none = account && !problem && !limits.length ? [["Slurm’s account", `Slurm sets ${account} no limit on use (GrpTRESMins).`]] : [];
  const silent = problem ? [["Slurm’s account", `${problem}${age === null ? " What the account has left is not known." : ` This is from ${duration(age)} ago.`}`]] : [];
  const forgets = [half ? `half of the use in ${duration(half)}` : "", resets ? `all of it ${RESETS[resets] ?? resets.toLowerCase()}` : ""].filter(Boolean);
  return [
    facts([
      ["Portal’s budget", budgetWords(money.budget)],
      ...limits,
      ...none,
      ...silent,
      first ? ["What ends first", firstWords(first, at, ends)] : null,
    ]),
    limits.length && forgets.length ? el("p.portal-quiet", `Slurm forgets ${forgets.join(" and ")}, so what is left grows again.`) : null,
  ];
}

// "used 3 of 10 GPU-hours, at this pace until 4 Dec 2026"
function slurmWords({ tres, limit, used, until }) {
  const words = `used ${short(used)} of ${short(limit)} ${unitOf(tres)}`;
  if (used >= limit) return `${words}: none is left, and jobs wait`;
  return until ? `${words}, at this pace until ${day(until)}` : words;
}

function firstWords(first, at, ends) {
  if (first === "end") return `${FIRST.end}, on ${ends}`;
  return `${FIRST[first]}, ${at <= now() ? "which is used up" : `on ${day(at)} at this pace`}`;
}
