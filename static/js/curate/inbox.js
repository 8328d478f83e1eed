// The curators' start page: requests, invalid files, environments, builds.

import { call, loginEnded } from "../api.js";
import { ask, tell } from "../dialog.js";
import { byId, el, fill, setText, trouble } from "../dom.js";
import { followForm } from "../filters.js";
import { Pager } from "../pager.js";
import { Poller } from "../poller.js";
import { Table } from "../table.js";
import { count } from "../words.js";
import { loadRequests } from "./requests.js";
import { buildPage, environmentPage, gpuWords, isLive, versionState, when, workState } from "./words.js";

const EVERY = 5000;
const KINDS = { container: "Container", modules: "Modules", venv: "Virtual environment" };
let environments = [];

const table = new Table(byId("environments"), {
  label: "environments-title",
  columns: [
    { head: "Environment", cell: (environment) => el("div", el("a.first", { href: environmentPage(environment.name) }, environment.title || environment.name), el("span.second", environment.name)) },
    { head: "State", cell: (environment) => el("div", versionState(environment.state), environment.offered ? null : el("span.second", "not offered"), environment.draft && environment.draft.number > 1 ? el("span.second", `version ${environment.draft.number} ${environment.draft.state}`) : null) },
    { head: "Reason", wide: true, cell: (environment) => environment.reason || environment.message || "–" },
    { head: "Kind", cell: (environment) => KINDS[environment.kind] ?? environment.kind },
    { head: "GPU types", cell: (environment) => (environment.gpu_types?.length ? environment.gpu_types.map(gpuWords).join(", ") : "–") },
    { head: "Tested", cell: (environment) => when(environment.tested_at) },
  ],
});
const builds = new Table(byId("builds"), {
  label: "builds-title",
  columns: [
    { head: "Build", cell: (build) => el("a", { href: buildPage(build.id) }, `Build ${build.id}`) },
    { head: "State", cell: (build) => el("div", workState(build.state), isLive(build) && build.step ? el("span.second", build.step) : null) },
    { head: "Source", wide: true, cell: (build) => el("span.portal-path", build.source) },
    { head: "Requested by", cell: (build) => build.askers.join(", ") },
    { head: "Requested", cell: (build) => when(build.asked_at) },
    { head: "Result", wide: true, cell: (build) => build.message || "–" },
  ],
});
const pager = new Pager(byId("builds-pager"), 10, loadBuilds);
const values = followForm(byId("filters"), showEnvironments);

async function loadEnvironments() {
  const answer = await call("environments", { query: { all: "true" } });
  environments = answer.items.filter((environment) => !environment.private && !environment.name.endsWith(".preview"));
  byId("files").hidden = !answer.errors?.length;
  fill(
    byId("files-list"),
    (answer.errors ?? []).map(({ file, line, message }) =>
      el("li.entry", el("div", el("p", el("code", file), line ? `, line ${line}` : ""), el("p.why", message))),
    ),
  );
  showEnvironments();
}

function showEnvironments() {
  const text = (values.text ?? "").toLowerCase();
  const fits = (environment) =>
    (!values.state || environment.state === values.state) &&
    [environment.name, environment.title, environment.reason, environment.message, ...(environment.tags ?? [])].some((word) => (word ?? "").toLowerCase().includes(text));
  const items = environments.filter(fits);
  table.show(items, environments.length ? "No environment matches these filters." : "No environments yet.");
  setText(byId("environments-count"), environments.length ? `${items.length === environments.length ? "" : `${items.length} of `}${count(environments.length, "environment")}` : "");
}

async function loadBuilds() {
  const page = await pager.read((place) => call("builds", { query: place }));
  builds.show(page.items, "No builds yet.");
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
  fill(byId("troubles"), [...new Set(troubles)].map((words) => trouble(words)));
}
const poller = new Poller({ every: EVERY, ask: load });

byId("test-all").addEventListener("click", async () => {
  const sure = await ask({
    title: "Test all environments again?",
    text: "Each environment is tested in a Slurm job for each GPU type. Environments that fail are no longer offered.",
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
