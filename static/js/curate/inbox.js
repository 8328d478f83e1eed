// What there is to do in the catalog: requests, wrong files, environments, builds.

import { call, loginEnded } from "../api.js";
import { ask, tell } from "../dialog.js";
import { byId, el, fill, setText } from "../dom.js";
import { followForm } from "../filters.js";
import { Pager } from "../pager.js";
import { Poller } from "../poller.js";
import { Table } from "../table.js";
import { count } from "../words.js";
import { loadRequests } from "./requests.js";
import { buildPage, environmentPage, gpuWords, isLive, versionState, when, workState } from "./words.js";

const EVERY = 5000;
const BUILDS = 10;
const KINDS = { container: "Container", modules: "Modules", venv: "Virtual environment" };
let environments = [];

const table = new Table(byId("environments"), {
  label: "environments-title",
  columns: [
    { head: "Environment", cell: (one) => el("div", {}, el("a.first", { href: environmentPage(one.name) }, one.title || one.name), el("span.second", {}, one.name)) },
    { head: "State", cell: (one) => el("div", {}, versionState(one.state), one.offered ? null : el("span.second", {}, "not offered"), one.draft && one.draft.number > 1 ? el("span.second", {}, `version ${one.draft.number} ${one.draft.state}`) : null) },
    { head: "Why", wide: true, cell: (one) => one.reason || one.message || "–" },
    { head: "Kind", cell: (one) => KINDS[one.kind] ?? one.kind },
    { head: "GPU types", cell: (one) => (one.gpu_types?.length ? one.gpu_types.map(gpuWords).join(", ") : "–") },
    { head: "Tested", cell: (one) => when(one.tested_at) },
  ],
});
const builds = new Table(byId("builds"), {
  label: "builds-title",
  columns: [
    { head: "Build", cell: (one) => el("a", { href: buildPage(one.id) }, `Build ${one.id}`) },
    { head: "State", cell: (one) => el("div", {}, workState(one.state), isLive(one) && one.step ? el("span.second", {}, one.step) : null) },
    { head: "Of", wide: true, cell: (one) => el("span.portal-path", {}, one.source) },
    { head: "For", cell: (one) => one.askers.join(", ") },
    { head: "Asked", cell: (one) => when(one.asked_at) },
    { head: "What came of it", wide: true, cell: (one) => one.message || "–" },
  ],
});
const pager = new Pager(byId("builds-pager"), BUILDS, loadBuilds);
let values = followForm(byId("filters"), (fresh) => {
  values = fresh;
  showEnvironments();
});

async function loadEnvironments() {
  const answer = await call("environments", { query: { all: "true" } });
  environments = answer.items.filter((one) => !one.private && !one.name.endsWith(".preview"));
  byId("files").hidden = !answer.errors?.length;
  fill(
    byId("files-list"),
    (answer.errors ?? []).map(({ file, line, message }) =>
      el("li.entry", {}, el("div", {}, el("p", {}, el("code", {}, file), line ? `, line ${line}` : ""), el("p.why", {}, message))),
    ),
  );
  showEnvironments();
}

function showEnvironments() {
  const text = (values.text ?? "").toLowerCase();
  const fits = (one) =>
    (!values.state || one.state === values.state) &&
    [one.name, one.title, one.reason, one.message, ...(one.tags ?? [])].some((word) => (word ?? "").toLowerCase().includes(text));
  const items = environments.filter(fits);
  table.show(items, environments.length ? "None fits these filters." : "There are none yet.");
  setText(byId("environments-count"), environments.length ? `${items.length === environments.length ? "" : `${items.length} of `}${count(environments.length, "environment")}` : "");
}

async function loadBuilds() {
  const page = await call("builds", { query: { limit: BUILDS, after: pager.after } });
  if (!page.items.length && pager.back()) return loadBuilds();
  pager.show(page);
  builds.show(page.items, "Nothing was built yet.");
  const live = page.items.filter(isLive).length;
  setText(byId("builds-count"), live ? `${count(live, "build")} under way` : "");
}

async function load() {
  const troubles = [];
  const part = async (run, id) => {
    try {
      await run();
    } catch (error) {
      if (!loginEnded(error)) troubles.push(error.message);
    }
    if (id) byId(id).removeAttribute("aria-busy");
  };
  await Promise.all([part(loadEnvironments, "environments"), part(loadBuilds, "builds"), part(loadRequests)]);
  fill(byId("troubles"), [...new Set(troubles)].map((words) => el("div.alert.alert-warning.trouble", {}, words)));
}
const poller = new Poller({ every: EVERY, ask: load });

byId("test-all").addEventListener("click", async () => {
  const sure = await ask({
    title: "Test all environments again?",
    text: "Every environment gets a job in Slurm for each GPU type. What fails is not offered any more.",
    action: "Test all",
  });
  if (sure === null) return;
  await tell(async () => {
    const answer = await call("environments/test-all", { method: "POST", body: {} });
    return answer?.message ?? "The tests are under way.";
  });
  poller.now();
});

poller.now();
