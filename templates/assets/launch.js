// The launch form: offers only options that fit together, shows in one line what Start will do, and
// fills in the options in a link's fragment (…/hub/spawn#environment=x&gpus=2). The form works
// without this script; the Hub checks every request anyway.
const form = document.getElementById("spawn_form");
const dataElement = document.getElementById("launch-data");
const data = dataElement ? JSON.parse(dataElement.textContent) : null;

const field = (name) => form.elements.namedItem(name);
const value = (name) => field(name)?.value ?? "";

// Sets a field if it has that choice; an unknown value is ignored.
function set(name, wanted) {
  const element = field(name);
  if (!element || wanted === undefined || wanted === null) return false;
  const text = String(wanted);
  if (element instanceof RadioNodeList) {
    for (const radio of element) {
      if (radio.value === text && !radio.disabled) {
        radio.checked = true;
        return true;
      }
    }
    return false;
  }
  if (element instanceof HTMLSelectElement) {
    const option = [...element.options].find((o) => o.value === text && !o.disabled);
    if (option) element.value = text;
    return Boolean(option);
  }
  if (element.type === "hidden") return element.value === text;
  element.value = text;
  return true;
}

const options = (name) => {
  const element = field(name);
  if (element instanceof RadioNodeList) return [...element];
  return element instanceof HTMLSelectElement ? [...element.options] : [];
};

function offer(option, allowed) {
  option.disabled = !allowed;
  if (option instanceof HTMLOptionElement) option.hidden = !allowed;
}

// Selects a choice that is still offered: the nearest smaller one, else the first.
function settle(name) {
  const all = options(name);
  const at = all.findIndex((o) => o.checked || o.selected);
  if (at < 0 || !all[at].disabled) return;
  const other =
    all.slice(0, at).reverse().find((o) => !o.disabled) ?? all.find((o) => !o.disabled);
  if (other) set(name, other.value);
}

const environment = () => data.environments[value("environment")] ?? { default: {}, gpu_types: [] };
const gpus = () => Number.parseInt(value("gpus") || "0", 10) || 0;

function typesAllowed() {
  const only = environment().gpu_types;
  const partition = data.partitions[value("partition")];
  return Object.keys(data.gpus).filter(
    (type) => (!only.length || only.includes(type)) && (!partition || type in partition.gpu_types),
  );
}

function fit() {
  const here = environment();
  for (const option of options("kind")) offer(option, here.kinds?.includes(option.value));
  settle("kind");
  for (const option of options("partition")) {
    const types = data.partitions[option.value]?.gpu_types ?? {};
    const only = here.gpu_types;
    const fits = Object.keys(types).some((t) => !only.length || only.includes(t));
    offer(option, option.value === "" || !gpus() || fits);
  }
  settle("partition");
  for (const { name } of data.fields) {
    // Values that only nodes of some partitions have.
    const bound = options(name).filter((option) => option.dataset.partitions);
    for (const option of bound) {
      offer(option, !value("partition") || option.dataset.partitions.split(" ").includes(value("partition")));
    }
    if (bound.length) settle(name);
  }
  const allowed = typesAllowed();
  const everything = allowed.length === Object.keys(data.gpus).length;
  for (const option of options("gpu_type")) {
    // With "Any type", Slurm could choose a type that the environment cannot use.
    offer(option, option.value === "" ? everything : allowed.includes(option.value));
  }
  settle("gpu_type");
  const type = value("gpu_type");
  const types = type ? [type] : allowed;
  const most = Math.min(
    Math.max(0, ...types.map((t) => data.gpus[t].per_node)),
    here.max_gpus ?? Infinity,
  );
  for (const option of options("gpus")) offer(option, Number(option.value) <= most);
  settle("gpus");
  const partition = data.partitions[value("partition")];
  const account = value("account");
  for (const option of options("qos")) {
    const accounts = option.dataset.accounts?.split(" ");
    offer(option, !account || !accounts || accounts.includes(account));
  }
  settle("qos");
  const qos = options("qos").find((option) => option.value === value("qos"));
  const longest = Math.min(
    here.max_seconds ?? Infinity,
    partition?.max_seconds ?? Infinity,
    Number(qos?.dataset.seconds ?? Infinity),
  );
  for (const option of options("time")) offer(option, Number(option.dataset.seconds) <= longest);
  settle("time");
  for (const name of ["cpus", "memory"]) {
    const element = field(name);
    if (element && here.default[name]) element.placeholder = here.default[name];
  }
}

const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function sizeInWords(text) {
  const match = /^\s*(\d+)\s*([MGT])/i.exec(text);
  return match ? `${match[1]} ${match[2].toUpperCase()}B` : text;
}

function timeInWords() {
  const element = field("time");
  return element instanceof HTMLSelectElement ? element.selectedOptions[0]?.textContent.trim() : "";
}

const simulated = (type) =>
  (type ? [type] : Object.keys(data.gpus)).every((name) => data.gpus[name]?.simulated);

function summary() {
  const here = environment();
  const parts = [];
  const type = value("gpu_type") || (options("gpu_type").length ? "" : Object.keys(data.gpus)[0]);
  if (gpus()) {
    const what = type ? `${gpus()} × ${type}` : plural(gpus(), "GPU");
    parts.push(simulated(type) ? `${what} (simulated)` : what);
  }
  const cpus = Number.parseInt(value("cpus") || here.default.cpus || "0", 10);
  if (cpus) parts.push(plural(cpus, "CPU"));
  const memory = value("memory") || here.default.memory;
  if (memory) parts.push(sizeInWords(memory));
  const nodes = Number.parseInt(value("nodes") || "1", 10);
  if (nodes > 1) parts.push(`each of ${nodes} nodes`);
  const opens = data.kinds[value("kind") || data.usual_kind];
  let text = here.title?.toLowerCase().includes(opens.toLowerCase()) ? here.title : `${opens} in ${here.title}`;
  if (parts.length) text += ` on ${parts.join(", ")}`;
  const time = timeInWords();
  if (time) text += ` for ${time}`;
  return text;
}

// Why the environment cannot use some of the GPU types.
function refused() {
  const reasons = Object.entries(environment().refusals ?? {}).filter(([type]) => type in data.gpus);
  return reasons.map(([, reason]) => reason).join(" ");
}

function hint() {
  if (!gpus()) return "";
  const type = value("gpu_type");
  const types = type ? [type] : typesAllowed();
  const most = Math.max(0, ...types.map((t) => data.gpus[t].free_on_one_node));
  if (most >= gpus()) return "";
  const what = type ? `${type} GPU` : "GPU";
  return most
    ? `No node has ${plural(gpus(), what)} free now (maximum: ${most}): the session will wait in the queue.`
    : `No ${what} is free now: the session will wait in the queue.`;
}

function show() {
  fit();
  document.getElementById("launch-summary").textContent = summary();
  document.getElementById("launch-hint").textContent = hint();
  const why = document.getElementById("launch-refusals");
  if (why && why.textContent !== refused()) why.textContent = refused();
  askWhen();
  const tiles = document.getElementById("launch-gpu-type");
  if (tiles instanceof HTMLFieldSetElement) tiles.disabled = !gpus();
}

// The estimated start, requested from the Hub after a pause in the user's changes. The
// old answer stays, greyed out, until the new one arrives; the same answer is not written (and not read
// aloud) again.
const PAUSE = 400; // milliseconds without a change
const AGAIN = 30000; // milliseconds after which the estimate for the same choice is refreshed
const estimate = { asked: "", timer: 0, running: null, shown: "" };

function chosen() {
  const names = ["environment", "kind", ...data.fields.map((entry) => entry.name)];
  const fields = new FormData(form);
  return Object.fromEntries(names.filter((name) => fields.get(name)).map((name) => [name, fields.get(name)]));
}

function askWhen(again = false) {
  const place = document.getElementById("launch-estimate");
  if (!place || !data.owner || document.getElementById("start").disabled) return;
  const body = JSON.stringify(chosen());
  if (body === estimate.asked && !again) return;
  estimate.asked = body;
  estimate.running?.abort();
  place.classList.add("portal-old");
  clearTimeout(estimate.timer);
  estimate.timer = setTimeout(() => fetchWhen(body), again ? 0 : PAUSE);
}

async function fetchWhen(body) {
  const stop = (estimate.running = new AbortController());
  let answer = null;
  try {
    const response = await fetch(`${hub.base_url}api/portal/estimates/${encodeURIComponent(data.owner)}`, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", "X-XSRFToken": hub.xsrf_token },
      body,
      signal: stop.signal,
    });
    if (response.ok) answer = await response.json();
  } catch {
    if (stop.signal.aborted) return; // the choice has changed meanwhile
  }
  if (body !== estimate.asked) return;
  showWhen(answer);
  estimate.timer = setTimeout(() => {
    if (document.hidden) document.addEventListener("visibilitychange", () => askWhen(true), { once: true });
    else askWhen(true);
  }, AGAIN);
}

// ``answer`` null: no answer, so no estimate is shown instead of an old one.
function showWhen(answer) {
  const place = document.getElementById("launch-estimate");
  place.classList.remove("portal-old");
  document.getElementById("launch-estimate-words").hidden = !answer;
  const nearby = answer?.nearby ?? [];
  const shown = JSON.stringify([answer?.words, answer?.source, nearby.map((choice) => [choice.label, choice.words])]);
  if (shown === estimate.shown) return;
  estimate.shown = shown;
  place.dataset.outlook = answer?.outlook ?? "";
  document.getElementById("launch-starts").textContent = answer?.words ?? "";
  document.getElementById("launch-starts-source").textContent = answer?.source ?? "";
  const buttons = document.getElementById("launch-nearby");
  buttons.hidden = !nearby.length;
  buttons.replaceChildren(
    ...nearby.map((choice) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "btn btn-sm btn-outline-secondary";
      button.textContent = `${choice.label}: ${choice.words}`;
      button.addEventListener("click", () => {
        take(new URLSearchParams(Object.entries(choice.changes)));
        show();
        document.getElementById("start").focus();
      });
      return button;
    }),
  );
  // Slurm's estimate is better than the page's own hint.
  document.getElementById("launch-hint").hidden = Boolean(answer) && answer.outlook !== "unknown";
}

// A new environment sets its own defaults, unless the user has already chosen.
const touched = new Set();
function changed(event) {
  const name = event.target.name;
  if (name === "environment") {
    const usual = environment().default;
    for (const key of ["gpus", "gpu_type"]) {
      if (!touched.has("gpus") && !touched.has("gpu_type")) set(key, usual[key] ?? (key === "gpus" ? 0 : ""));
    }
    if (!touched.has("time")) set("time", usual.time);
  } else {
    touched.add(name);
  }
  show();
}

function take(wanted) {
  // In this order, since each choice limits the next ones. A type counts only with
  // GPUs, and fit() clamps the count, so the type goes first.
  const order = ["environment", "partition", "gpu_type", "gpus"];
  for (const name of [...order, ...[...wanted.keys()].filter((key) => !order.includes(key))]) {
    if (!wanted.has(name)) continue;
    if (set(name, wanted.get(name)) && name !== "environment") touched.add(name);
    fit();
  }
  const folded = data.fields.filter((entry) => entry.folded).map((entry) => entry.name);
  const more = document.getElementById("launch-more");
  if (more && folded.some((name) => wanted.get(name))) more.open = true;
}

// Many environments: the first ones are shown, or those that match the search. The chosen one is always shown.
const find = document.getElementById("launch-find");
let findAgain = () => {};
if (find) {
  find.hidden = false;
  findAgain = finder({
    cards: () => [...document.querySelectorAll("#launch-cards > .portal-card")],
    search: document.getElementById("launch-search"),
    filters: find.querySelectorAll(".portal-filter"),
    count: document.getElementById("launch-count"),
    all: document.getElementById("launch-all"),
    first: 6, // two rows, so that GPUs are on the first screen too
    noun: "environment",
    go: "input",
  });
}

const REMEMBERED = "portal-launch";

if (form && data && Object.keys(data.environments).length) {
  form.addEventListener("change", changed);
  form.addEventListener("input", () => show());
  const link = new URLSearchParams(window.location.hash.slice(1));
  if (document.getElementById("launch-refused")) {
    // Fill in the refused options again, so that the user can correct them.
    take(new URLSearchParams(sessionStorage.getItem(REMEMBERED) ?? ""));
  } else if ([...link].length) {
    fit();
    take(link);
  }
  show();
  findAgain();
}

if (form) {
  const button = document.getElementById("start");
  const usual = button?.innerHTML;
  form.addEventListener("submit", () => {
    const entered = [...new FormData(form)].filter(([, text]) => typeof text === "string");
    sessionStorage.setItem(REMEMBERED, new URLSearchParams(entered).toString());
    button.disabled = true;
    button.textContent = "Starting…";
  });
  // After "Back", the browser may show this page as it was left.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) {
      button.disabled = false;
      button.innerHTML = usual;
    }
  });
}
forgetToken();
window._jupyterhub_page_loaded = true;
