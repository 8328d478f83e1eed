// The form of a new run. A running session of the user answers what can be chosen, reads the file, counts the
// points and starts the run, as for JupyterLab's dialog.

import { ApiError, call, facts, newId } from "../api.js";
import { byId, el, fill, later, setText, showTrouble } from "../dom.js";
import { sends } from "../forms.js";
import { shortPath } from "../paths.js";
import { Poller } from "../poller.js";
import { ResourcesForm } from "../resources-form.js";
import { count } from "../words.js";
import { Files } from "./files.js";
import { Parameters } from "./parameters.js";
import { input, Row, select } from "./row.js";

const PAUSE = 500; // milliseconds from the last change to the request for the number of points
const EVERY = 5000; // while no session runs
const AT_ONCE = 10;
const CLASSES = { row: "run-row", label: "form-label", input: "form-control", select: "form-select", button: "btn btn-sm btn-outline-contrast mb-2", wrong: "text-danger" };
const TRIED = "portal-new-run"; // the id of a run that this tab has asked for
const CAN_RUN = /\.(ipynb|py)$/;
const form = byId("new-run");
let newRun = null; // once a session is there
const poller = new Poller({ every: EVERY, ask: begin, onTrouble: showTrouble });

// The first sessions that are there are offered.
async function begin() {
  const { sessions, sources, projects } = await call("run-form");
  showTrouble(null);
  byId("without").hidden = sessions.length > 0;
  form.hidden = !sessions.length;
  if (!sessions.length) return EVERY;
  newRun ??= new NewRun(sessions, sources, projects);
  if (await newRun.hasStarted()) return null;
  await newRun.choose();
  return null;
}

class NewRun {
  constructor(sessions, sources, projects) {
    this.sessions = sessions;
    this.projects = projects;
    this.started = false;
    // Sent each time: whatever happens to the answers, the run starts once. After a restart of the Hub, the page
    // has to be loaded again, too.
    const tried = sessionStorage.getItem(TRIED);
    this.runId = tried ?? newId();
    this.tried = tried !== null; // it may have started already
    this.refused = null; // why the run was not started, until something is changed
    const named = sessions.map(({ id, title, server }) => [id, server ? `${title}, ${server}` : title]);
    this.session = new Row("Session", select(named), "It reads the file. The run goes on when it ends.");
    this.session.node.hidden = sessions.length === 1;
    const known = el("datalist", { id: "run-sources" }, sources.map((path) => el("option", { value: shortPath(path, facts.user) })));
    this.source = new Row("Notebook or script", input("~/work/train.ipynb"));
    this.source.control.setAttribute("list", known.id);
    this.files = new Files((path) => this.#get("files", { path }).then(({ content }) => content ?? []), (path) => {
      this.source.control.value = `~/${path}`;
      this.source.control.focus();
      this.#read();
    });
    const file = el("div.run-source", this.source.control, this.files.button);
    this.source.node.querySelector("label").after(file);
    this.name = new Row("Name", input(), "Of the run and its folder, in runs/ beside the file.");
    this.parameters = new Parameters(byId("run-parameters"), () => this.#read());
    this.list = new Row("List of points", input("points.csv"), "A CSV file or a JSON list; a path relative to the folder of the file, or absolute.");
    this.sample = new Row("Sample", input("all", 1), "Number of combinations, chosen at random.");
    this.seed = new Row("Seed", input("random", 0));
    this.atOnce = new Row("Points at once", input("", 1));
    this.atOnce.control.value = String(AT_ONCE);
    this.ranks = new Row("Ranks on each node", input("", 1), "Processes that execute the script together. Empty: one for each GPU if there are several nodes, else one.");
    this.after = new Row("Start after", select([["", "Any time"]]), "Once all points of that run have succeeded.");
    const whose = projects.map(({ name, title }) => [name, `project ${title}`]);
    this.project = new Row("Run for", select([["", "me"], ...whose]), "A project’s run is charged to its account, and its members see it.");
    this.project.node.hidden = !projects.length;
    const asked = new URLSearchParams(window.location.search).get("project");
    if (projects.some(({ name }) => name === asked)) this.project.control.value = asked;
    this.environment = new Row("Environment", select([]));
    byId("run-what").replaceChildren(this.session.node, this.source.node, known, this.files.place, this.name.node);
    byId("run-list").append(this.list.node, this.sample.node, this.seed.node);
    byId("run-how").replaceChildren(this.atOnce.node, this.ranks.node, this.after.node);
    this.#showRanks();
    byId("run-environment").replaceChildren(this.project.node, this.environment.node);
    this.#follow();
  }

  get id() {
    return this.session.value;
  }

  // What the chosen session offers.
  async choose() {
    const { dialog } = this.sessions.find(({ id }) => id === this.id);
    byId("run-in-lab").href = dialog;
    const [choices, { items }] = await Promise.all([this.#get("choices"), this.#get("unfinished")]);
    this.choices = choices;
    fill(this.after.control, el("option", { value: "" }, "Any time"), items.map(({ id, name }) => el("option", { value: id }, name)));
    this.after.node.hidden = !items.length;
    this.#environments(choices.environment);
    await this.#read();
    if (!this.source.value) this.source.control.focus();
  }

  // The environments of the user's own, or those that the project has.
  #environments(chosen = this.environment.value) {
    const { items } = this.choices;
    const project = this.projects.find(({ name }) => name === this.project.value);
    this.offered = project ? items.filter(({ environment }) => project.environments.includes(environment)) : items;
    this.fields = project ? this.choices.fields.filter(({ name }) => project.fields.includes(name)) : this.choices.fields;
    fill(this.environment.control, this.offered.map(({ environment, title }) => el("option", { value: environment, selected: environment === chosen }, title)));
    this.#showRanks();
    if (this.offered.length) this.#resources();
    else fill(byId("run-resources"), el("p.portal-quiet", "You can use none of the environments of this project."));
  }

  // The fields of the chosen environment, with its default resources.
  #resources() {
    const { simulated } = this.choices;
    const chosen = this.offered.find(({ environment }) => environment === this.environment.value);
    const own = this.fields.map((field) => (field.name === "gpu_type" ? { ...field, values: chosen.gpu_types } : field));
    const estimate = async (options) => {
      const answer = await this.#ask("estimate", { options: { ...options, environment: chosen.environment, ...this.#for() } });
      return answer.field ? answer : { ...answer, words: `First point: ${answer.words}` };
    };
    this.form?.dispose();
    this.form = new ResourcesForm({ busy: null, options: chosen.default, fields: own, kept: [] }, estimate, CLASSES, chosen.default, false);
    byId("run-resources").removeAttribute("aria-busy");
    fill(byId("run-resources"), this.form.node, simulated ? el("p.portal-quiet", "The GPUs of this cluster are simulated.") : null);
  }

  // A notebook has one kernel, and a space's runs are on one node (their fields have no nodes).
  #showRanks() {
    const may = this.fields?.some(({ name }) => name === "nodes");
    this.ranks.node.hidden = !may || !this.#path().endsWith(".py");
  }

  #follow() {
    const change = later(() => this.#count(), PAUSE);
    const read = later(() => this.#read(), PAUSE);
    form.addEventListener("input", (event) => {
      this.refused = null;
      this.#show(null);
      this.#showRanks();
      if (event.target === this.source.control) {
        if (CAN_RUN.test(this.source.value)) read(); // not while it is typed
      } else if (!byId("run-resources").contains(event.target)) change();
    });
    this.source.control.addEventListener("change", () => this.#read());
    this.environment.control.addEventListener("change", () => this.#resources());
    this.project.control.addEventListener("change", () => this.#environments());
    this.session.control.addEventListener("change", () => this.choose().catch(showTrouble));
    const button = form.querySelector(".btn-jupyter");
    sends(form, byId("run-alert"), () => this.#start(), { button, settled: () => (button.disabled = this.started) });
  }

  // Reads the name and the parameters of the file, then counts the points.
  async #read() {
    const [path, asked] = [this.#path(), (this.reading = Symbol("reading"))];
    this.#showRanks();
    if (!path) return;
    try {
      const { name, parameters } = await this.#get("source", { path, first_cell: this.parameters.firstCell.checked ? "1" : "" });
      if (this.reading !== asked) return;
      if (!this.name.value || this.name.value === this.named) this.name.control.value = this.named = name;
      this.parameters.show(parameters);
      await this.#count();
    } catch (error) {
      if (this.reading === asked) this.#failed(error, () => this.reading === asked && this.#read());
    }
  }

  // Asks for the number of points, which is also the check of all fields but the resources.
  async #count() {
    const asked = (this.counting = Symbol("counting"));
    this.seed.control.disabled = !this.sample.value;
    if (!this.#path()) return;
    let words = "";
    try {
      const { resources, ...request } = this.asked;
      const { points } = await this.#ask("points", request);
      words = this.#pointWords(points);
      if (this.counting === asked) this.#show(this.refused);
    } catch (error) {
      if (this.counting === asked) this.#failed(error, () => this.counting === asked && this.#count());
    }
    if (this.counting === asked) setText(byId("run-points"), words);
  }

  // Shows why a question failed, unless the start itself was answered with an error; one that the portal did not answer
  // is asked again.
  #failed(error, again) {
    const away = error instanceof ApiError && !error.code;
    this.#show(away ? (this.refused ?? new ApiError("The portal does not answer. Retrying…")) : error);
    if (away) setTimeout(again, EVERY);
  }

  #pointWords(points) {
    const most = this.choices.points;
    if (points > most) return `${count(points, "point")}; the limit of this site is ${most.toLocaleString("en")}. Set fewer values.`;
    return points === 1 ? "1 point" : `${count(points, "point")}, at most ${Math.min(points, Number(this.atOnce.value) || AT_ONCE)} at once`;
  }

  // What the session is asked for, as by JupyterLab's dialog.
  get asked() {
    return {
      source: this.#path(),
      name: this.name.value,
      first_cell: this.parameters.firstCell.checked,
      values: this.parameters.values,
      file: this.list.value,
      sample: this.sample.value || null,
      seed: (this.sample.value && this.seed.value) || null,
      at_once: this.atOnce.value || null,
      ranks: (!this.ranks.node.hidden && this.ranks.value) || null,
      after: this.after.value,
      environment: this.environment.value,
      ...this.#for(),
      resources: this.form?.value ?? {},
    };
  }

  // The project that the run is for.
  #for() {
    return this.project.value ? { project: this.project.value } : {};
  }

  async #start() {
    try {
      if (await this.hasStarted()) return;
      this.tried = true;
      sessionStorage.setItem(TRIED, this.runId);
      this.#open((await this.#ask("start", { ...this.asked, id: this.runId })).id);
    } catch (error) {
      this.refused = !error.status || error.status >= 500 ? unanswered(error) : error;
      this.#show(this.refused)?.control?.focus();
    }
  }

  // Opens the run if the portal has it, although it was not said so; returns whether it has.
  async hasStarted() {
    if (!this.tried) return false;
    try {
      await call(/** @type {`runs/${string}`} */ (`runs/${this.runId}`));
      this.#open(this.runId);
      return true;
    } catch (error) {
      if (error.status === 404) return false;
      throw error;
    }
  }

  #open(id) {
    this.started = true;
    sessionStorage.removeItem(TRIED);
    window.location.assign(`${facts.prefix}runs/${encodeURIComponent(id)}`);
  }

  // Shows an error beside its field, or above the button; null: nothing is wrong. Returns the row.
  #show(error) {
    const field = error?.field ?? "";
    const rows = { source: this.source, name: this.name, file: this.list, sample: this.sample, seed: this.seed, at_once: this.atOnce, ranks: this.ranks, after: this.after, environment: this.environment, project: this.project };
    const wrong = field.startsWith("values:") ? this.parameters.row(field.slice("values:".length)) : rows[field];
    for (const row of [...Object.values(rows), ...this.parameters.all]) row.show(row === wrong ? error.message : "");
    const beside = wrong || (error && this.form?.refuse(field, error.message));
    const alert = byId("run-alert");
    setText(alert, error && !beside ? error.message : "");
    alert.hidden = !alert.textContent;
    return wrong;
  }

  // The path as the session has it: relative to its folder.
  #path() {
    return shortPath(this.source.value, facts.user).replace(/^~\//, "");
  }

  /** @returns {Promise<any>} */
  async #get(part, query = {}) {
    return (await call(/** @type {`run-form/${string}/${string}`} */ (`run-form/${encodeURIComponent(this.id)}/${part}`), { query })).answer;
  }

  /** @returns {Promise<any>} */
  async #ask(part, asked) {
    const path = /** @type {`run-form/${string}/ask/${string}`} */ (`run-form/${encodeURIComponent(this.id)}/ask/${part}`);
    return (await call(path, { method: "POST", body: { asked } })).answer;
  }
}

// Returns an error that says what to do when nobody knows whether the run has started.
function unanswered({ message, status, code }) {
  const why = code ? message : "The portal does not answer.";
  return new ApiError(`${why} Whether the run has started is not known. Press “Start run” again: it starts only once.`, status, code);
}

poller.now();
