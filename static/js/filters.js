// The filters of nodes, GPUs and jobs. They are kept in the page's URL, so that a view can be
// bookmarked and shared.

import { facts, may } from "./api.js";
import { byId, differs, el, later } from "./dom.js";

const CHOICES = ["partition", "type", "reason", "portal"];
const NAMES = ["text", "user", "state", ...CHOICES];
const OF_JOBS = ["reason", "portal"]; // nodes and GPUs have none

export class Filters {
  constructor(onChange) {
    this.form = byId("filters");
    this.named = may("jobs:read");
    this.user = byId(this.named ? "filter-user" : "filter-mine");
    this.user.hidden = false;
    this.form.querySelector("label[for=filter-user]").htmlFor = this.user.id;
    const query = new URLSearchParams(window.location.search);
    this.values = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));
    if (!this.named && this.values.user !== facts.user) this.values.user = "";
    this.onChange = onChange;
    this.#show();
    const soon = later(() => this.#take(), 200);
    this.form.addEventListener("input", soon);
    this.form.addEventListener("change", () => this.#take());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", (event) => {
      event.preventDefault();
      this.only({});
      byId("filter-text").focus();
    });
  }

  // Sets the choices; the chosen value stays, even if it no longer exists.
  offer({ partitions, types, users }) {
    choices(byId("filter-partition"), partitions, this.values.partition);
    choices(byId("filter-type"), types, this.values.type);
    if (this.named) {
      const list = byId("filter-users");
      const there = [...list.options].map((option) => option.value).join("\n");
      if (there !== users.join("\n")) {
        list.replaceChildren(...users.map((user) => el("option", { value: user })));
      }
    }
  }

  set(values) {
    Object.assign(this.values, values);
    this.#show();
    this.#changed();
  }

  // Sets these, and clears the others.
  only(values) {
    this.set({ ...Object.fromEntries(NAMES.map((name) => [name, ""])), ...values });
  }

  // The filters as query parameters of the API's lists.
  get query() {
    const { user, state: _, ...found } = this.values;
    if (this.named) return { ...found, user };
    return { ...found, mine: user ? "true" : "" };
  }

  get any() {
    return NAMES.some((name) => this.values[name]);
  }

  // A function (node, gpu or null) => boolean, or null if there is no filter.
  get match() {
    if (NAMES.every((name) => !this.values[name] || OF_JOBS.includes(name))) return null;
    const { partition, type, state } = this.values;
    const text = this.values.text.trim().toLowerCase();
    const user = this.values.user.trim().toLowerCase();
    const has = (value) => Boolean(value) && value.toLowerCase().includes(text);
    return (node, gpu) => {
      if (partition && !node.partitions.includes(partition)) return false;
      if (text && has(node.name)) return this.#gpu(gpu, type, user, state);
      if (text && !(has(node.words) && (!node.usable || node.asleep)) && !has(node.reason)) {
        if (!gpu || ![gpu.job_id, gpu.user, gpu.environment, gpu.type].some(has)) return false;
      }
      return this.#gpu(gpu, type, user, state);
    };
  }

  #gpu(gpu, type, user, state) {
    if (!gpu) return !type && !user && !state;
    if (type && gpu.type !== type) return false;
    if (state && !state.split(",").includes(gpu.state)) return false;
    if (user && !(this.named ? gpu.user?.toLowerCase() === user : gpu.mine)) return false;
    return true;
  }

  #take() {
    const fresh = {
      text: byId("filter-text").value.trim(),
      user: this.user.value.trim(),
      ...Object.fromEntries(CHOICES.map((name) => [name, byId(`filter-${name}`).value])),
    };
    if (Object.entries(fresh).every(([name, value]) => this.values[name] === value)) return;
    Object.assign(this.values, fresh);
    this.#changed();
  }

  #show() {
    byId("filter-text").value = this.values.text;
    for (const name of CHOICES) choices(byId(`filter-${name}`), null, this.values[name]);
    this.user.value = this.values.user;
    byId("filter-clear").hidden = !this.any;
  }

  #changed() {
    byId("filter-clear").hidden = !this.any;
    keepInAddress(this.values);
    this.onChange();
  }
}

// Binds the named fields of a form to the page's URL: fills them from it, and calls `onChange()` after each change.
// Returns the values, which stay the same object.
export function followForm(form, onChange) {
  const query = new URLSearchParams(window.location.search);
  const fields = [...form.elements].filter((field) => field.name);
  for (const field of fields.filter(({ name }) => query.has(name))) {
    if (field.type === "checkbox") field.checked = query.get(field.name) !== "";
    else field.value = query.get(field.name);
  }
  const valueOf = ({ type, checked, value }) => (type !== "checkbox" ? value.trim() : checked ? "true" : "");
  const read = () => Object.fromEntries(fields.map((field) => [field.name, valueOf(field)]));
  const values = read();
  const take = () => {
    if (!differs(form, Object.assign(values, read()))) return;
    keepInAddress(values);
    onChange();
  };
  differs(form, values);
  form.addEventListener("input", later(take, 250));
  form.addEventListener("change", take);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    take();
  });
  return values;
}

// The order of a table in the page's URL, as options of the table: `usual` unless the URL names
// another. `load` is called after each change.
export const sortInAddress = (usual, load = () => {}) => ({
  sort: new URLSearchParams(window.location.search).get("sort") || usual,
  onSort: (sort) => {
    keepInAddress({ sort: sort === usual ? "" : sort });
    load();
  },
});

// Writes the values that are not empty to the page's URL.
export function keepInAddress(values) {
  const url = new URL(window.location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  window.history.replaceState(null, "", url);
}

function choices(select, values, chosen) {
  const there = [...select.options].slice(1).map((option) => option.value);
  const wanted = [...(values ?? there)];
  if (chosen && !wanted.includes(chosen)) wanted.push(chosen);
  if (wanted.join("\n") !== there.join("\n")) {
    select.replaceChildren(select.options[0], ...wanted.map((value) => el("option", { value }, value)));
  }
  select.value = chosen;
}
