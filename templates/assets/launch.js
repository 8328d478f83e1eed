// The launch form: offers only options that fit together, and shows in one line what Start will do. estimate.js
// adds when it would start, link.js what a link asks for. The form works without these scripts; the Hub
// checks every request anyway.
const form = document.getElementById("spawn_form");
const dataElement = document.getElementById("launch-data");
const data = dataElement ? JSON.parse(dataElement.textContent) : null;

const field = (name) => form.elements.namedItem(name);
const value = (name) => field(name)?.value ?? "";

// Sets a field and returns true if it has that choice, or if what is typed is valid; else it stays.
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
  const before = element.value;
  element.value = text;
  const fits = element.value === text && element.checkValidity();
  if (!fits) element.value = before;
  return fits;
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

// Without shares of GPUs: nobody gets one who has not chosen it.
const whole = (types) => types.filter((type) => !data.gpus[type].each);

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
  const everything = whole(Object.keys(data.gpus)).every((type) => allowed.includes(type));
  for (const option of options("gpu_type")) {
    // With "Any type", Slurm could choose a type that the environment cannot use.
    offer(option, option.value === "" ? everything : allowed.includes(option.value));
  }
  settle("gpu_type");
  const type = value("gpu_type");
  const types = type ? [type] : whole(allowed);
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

const titleOf = (type) => data.gpus[type]?.title ?? type;
const simulated = (type) =>
  (type ? [type] : Object.keys(data.gpus)).every((name) => data.gpus[name]?.simulated);

function summary() {
  const here = environment();
  const parts = [];
  const type = value("gpu_type") || (options("gpu_type").length ? "" : Object.keys(data.gpus)[0]);
  if (gpus()) {
    const what = type ? `${gpus()} × ${titleOf(type)}` : plural(gpus(), "GPU");
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

// Why a GPU type cannot be chosen now; "" if it can.
function whyNot(type) {
  if (typesAllowed().includes(type)) return "";
  const here = environment();
  const offered = !here.gpu_types.length || here.gpu_types.includes(type);
  if (!offered) return here.refusals?.[type] ?? `${here.title} does not run on ${titleOf(type)}.`;
  return `The partition ${value("partition")} has no ${titleOf(type)}.`;
}

// Why some of the GPU types are dimmed.
function dimmed() {
  if (environment().max_gpus === 0) return `${environment().title} uses no GPUs.`;
  if (!gpus()) return "Choose a number of GPUs first.";
  const types = options("gpu_type").filter((option) => option.value && option.disabled);
  return types.map((option) => whyNot(option.value)).join(" ");
}

function hint() {
  if (!gpus()) return "";
  const type = value("gpu_type");
  const types = type ? [type] : whole(typesAllowed());
  const most = Math.max(0, ...types.map((t) => data.gpus[t].free_on_one_node));
  if (most >= gpus()) return "";
  const share = type && data.gpus[type].each;
  const what = share ? titleOf(type) : type ? `${titleOf(type)} GPU` : "GPU";
  return most
    ? `No node has ${share ? `${gpus()} × ${what}` : plural(gpus(), what)} free now (maximum: ${most}): the session will wait in the queue.`
    : `No ${what} is free now: the session will wait in the queue.`;
}

function show() {
  fit();
  document.getElementById("launch-summary").textContent = summary();
  document.getElementById("launch-hint").textContent = hint();
  const why = document.getElementById("launch-refusals");
  if (why && why.textContent !== dimmed()) why.textContent = dimmed();
  askWhen();
  const tiles = document.getElementById("launch-gpu-type");
  if (tiles instanceof HTMLFieldSetElement) tiles.disabled = !gpus();
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

// "10 GB are enough": the smallest type with so much memory of its own; of equal ones, the one with most free.
const enough = document.getElementById("launch-gpu-memory");
enough?.addEventListener("change", () => {
  const wanted = Number(enough.value);
  const memory = (option) => Number(option.dataset.memory ?? 0);
  const free = (option) => data.gpus[option.value]?.free ?? 0;
  const fitting = options("gpu_type").filter((option) => !option.disabled && wanted && memory(option) >= wanted);
  const [best] = fitting.sort((a, b) => memory(a) - memory(b) || free(b) - free(a));
  if (best) set("gpu_type", best.value);
  touched.add("gpu_type");
});

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
    first: 6, // so that GPUs are on the first screen too
    noun: "environment",
    go: "input",
  });
}

const REMEMBERED = "portal-launch";

if (form && data && Object.keys(data.environments).length) {
  form.addEventListener("change", changed);
  const byMemory = document.getElementById("launch-gpu-memory-field");
  if (byMemory) byMemory.hidden = false;
  form.addEventListener("input", () => show());
  const link = linkedOptions();
  if (document.getElementById("launch-refused")) {
    // Fill in the refused options again, so that the user can correct them.
    take(new URLSearchParams(sessionStorage.getItem(REMEMBERED) ?? ""));
  } else if ([...link].length) {
    fit();
    listIgnored(take(link));
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
