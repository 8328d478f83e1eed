// The dialog that serves a model: a new endpoint, or a version of one.

import { ApiError, call } from "../api.js";
import { answered } from "../dialog.js";
import { el } from "../dom.js";
import { openForm } from "../forms.js";
import { ResourcesForm } from "../resources-form.js";
import { Row, input, select } from "../run/row.js";
import { Audience, filled, number, refusing, shellText, words } from "./fields.js";
import { scaleOf, scaleRows } from "./settings.js";
import { Sources } from "./sources.js";
import { pageOf, pathOf } from "./words.js";

const CLASSES = { row: "run-row", label: "form-label", input: "form-control", select: "form-select", button: "btn btn-sm btn-outline-contrast mb-2", wrong: "text-danger" };
const NEW = { least: 0, most: 1, idle: 1800 };
const SHARE = 10; // of a further version, in percent
// Programs to begin with. In the command, {socket} is the Unix socket on which the program must listen.
const PROGRAMS = {
  own: { title: "A script of yours", command: "{python} serve.py {socket}", health: "/health", paths: "", path: "/health", body: "" },
  uvicorn: { title: "FastAPI with uvicorn", command: "{python} -m uvicorn serve:app --uds {socket}", health: "/health", paths: "", path: "/health", body: "" },
  vllm: { title: "vLLM", command: "vllm serve . --uds {socket} --served-model-name model", health: "/health", paths: "/v1/", path: "/v1/completions", body: '{"model": "model", "prompt": "Hello", "max_tokens": 4}' },
};

// `run` and `point`: what to serve; `into`: the endpoint that gets a version, which is `project`'s.
/** @param {{run?: string, point?: number, into?: string, project?: string}} [given] */
export async function serve({ run = "", point = 0, into = "", project = "" } = {}) {
  const [choices, models] = await Promise.all([choicesFor(project), call("model-catalog").then(({ items }) => items, () => [])]);
  if (choices) await new Serving(choices, models, run ? { run, point } : null, into, project).begin();
}

const choicesFor = (project) => answered(call("model-choices", { query: { project } }));
const environments = ({ items }) => items.map(({ environment, title }) => [environment, title]);

class Serving {
  constructor(choices, models, chosen, into, project) {
    this.choices = choices;
    this.into = into;
    const owners = [["", "me"], ...choices.projects.map(({ name, title }) => [name, `the project ${title}`])];
    this.project = new Row("For", select(owners), "Whose account, limits and folder the replicas have. Members of the project may use the model.");
    this.project.control.value = project;
    this.project.node.hidden = Boolean(into) || owners.length === 1;
    this.name = new Row("Name", input("my-model"), "Of the address: a–z, 0–9 and “-”. With a name of yours, it becomes a further version.");
    this.name.control.setAttribute("list", "model-names");
    this.names = el("datalist", { id: "model-names" }, choices.names.map((name) => el("option", { value: name })));
    this.name.node.hidden = Boolean(into);
    if (into) this.name.control.value = into;
    this.sources = new Sources(chosen, models, (suggested) => this.#suggest(suggested));
    this.environment = new Row("Environment", select(environments(choices)));
    this.version = new Row("Version of the environment", input("current", 0));
    this.program = new Row("Program", select(Object.entries(PROGRAMS).map(([name, { title }]) => [name, title])));
    this.command = new Row("Command", el("textarea.form-control.model-command", { rows: 2, spellcheck: "false" }), "{socket} is the socket on which it must listen, {python} the environment’s Python.");
    this.health = new Row("Health path", input("/health"), "Answered with success once the model is loaded.");
    this.paths = new Row("Paths that are let through", input("all"), "Separated by spaces.");
    this.path = new Row("Path of the example", input("/health"), "Each replica answers it before it gets requests.");
    this.body = new Row("Body of the example (JSON)", el("textarea.form-control.model-command", { rows: 2, spellcheck: "false" }));
    this.share = filled(new Row("Share of the traffic, percent", input("", 1)), SHARE);
    this.scale = scaleRows(NEW);
    this.audience = new Audience({}, choices);
    this.resources = el("div");
    this.own = el("div", this.program.node, this.command.node, el("details", el("summary", "More: health, paths, example"), this.health.node, this.paths.node, this.path.node, this.body.node));
    this.fresh = el("div", this.scale.least.node, this.scale.most.node, this.scale.idle.node, this.audience.node);
    this.#program();
    this.program.control.addEventListener("change", () => this.#program());
    this.environment.control.addEventListener("change", () => this.#environment(0));
    this.name.control.addEventListener("input", () => this.#known());
    this.project.control.addEventListener("change", () => this.#project());
    this.refuse = refusing({
      name: this.name, project: this.project, ...this.sources.rows, environment: this.environment, environment_version: this.version, command: this.command, health: this.health,
      paths: this.paths, example: this.path, "example.body": this.body, share: this.share, ...this.scale, ...this.audience.rows,
    });
    this.#known();
  }

  async begin() {
    this.#environment(0);
    const dialog = openForm({
      id: "serve",
      title: this.into ? `Add a version to ${this.into}` : "Serve a model",
      content: [
        this.name.node, this.names, this.project.node, this.sources.node, this.environment.node, this.version.node, this.own,
        el("fieldset", el("legend", "Resources of each replica"), this.resources), this.share.node, this.fresh,
      ],
      action: this.into ? "Add version" : "Serve model",
      first: this.into ? this.sources.kind.control : this.name.control,
      send: () => this.#send(dialog),
      onClose: () => this.form?.dispose(),
    });
    dialog.classList.add("ask-wide", "model-fields");
    await answered(this.sources.begin());
  }

  // A name of the user's gets a version, which has a share; a new one is made first.
  #known() {
    const known = Boolean(this.into) || this.choices.names.includes(this.name.value);
    this.share.node.hidden = !known;
    this.fresh.hidden = known;
    this.project.control.disabled = known; // it cannot be changed
    return known;
  }

  // A project has environments and limits of its own.
  async #project() {
    const asked = this.project.value;
    const choices = await choicesFor(asked);
    if (!choices || asked !== this.project.value) return;
    this.choices = choices;
    this.environment.control.replaceChildren(...select(environments(choices)).children);
    if (this.model) this.#suggest({ model: this.model });
    else this.#environment(0);
    if (!choices.items.length) this.environment.show("None of the project’s environments is offered to you now.");
  }

  #program() {
    const { command, health, paths, path, body } = PROGRAMS[this.program.value];
    for (const [row, value] of Object.entries({ command, health, paths, path, body })) filled(this[row], value);
  }

  #environment(version, own = undefined) {
    filled(this.version, version || "");
    const chosen = this.choices.items.find(({ environment }) => environment === this.environment.value);
    if (!chosen) return;
    const fields = this.choices.fields.map((field) => (field.name === "gpu_type" ? { ...field, values: chosen.gpu_types } : field));
    const estimate = (options) => call("model-estimates", { method: "POST", body: { project: this.project.value, options: { ...options, environment: chosen.environment } } });
    const options = own ?? chosen.default;
    this.form?.dispose();
    this.form = new ResourcesForm({ busy: null, options, fields, kept: [] }, estimate, CLASSES, options, false);
    this.resources.replaceChildren(this.form.node, this.choices.simulated ? el("p.portal-quiet", "The GPUs of this cluster are simulated.") : "");
  }

  // Fills in what the source says: a run's environment, or a model of the catalog as it is there.
  #suggest({ environment = "", version = 0, model = null }) {
    this.model = model;
    this.own.hidden = this.version.node.hidden = Boolean(model);
    if (model) {
      if (model.problem) this.sources.model.show(model.problem);
      else this.sources.model.show("");
      filled(this.command, shellText(model.command));
    }
    const wanted = model?.environment ?? environment;
    const offered = !wanted || this.choices.items.some((item) => item.environment === wanted);
    if (offered && wanted) filled(this.environment, wanted);
    this.environment.show(offered ? "" : `The environment '${wanted}' is not offered to you now. Choose another one that has the model's software.`);
    this.environment.control.disabled = Boolean(model);
    this.#environment(offered ? version : 0, model ? model.resources : undefined);
  }

  #wanted() {
    const shared = { ...this.sources.value, ...this.form.value, share: this.#known() ? number(this.share) : 100 };
    if (this.model) return shared;
    const body = this.body.value ? parsed(this.body.value) : null;
    return {
      ...shared,
      environment: this.environment.value,
      environment_version: number(this.version) ?? 0,
      command: words(this.command.value),
      health: this.health.value,
      paths: this.paths.value.split(/\s+/).filter(Boolean),
      example: { method: body ? "POST" : "GET", path: this.path.value, ...(body ? { body } : {}) },
    };
  }

  async #send(dialog) {
    const name = this.name.value;
    try {
      if (!/^[a-z0-9-]{2,40}$/.test(name)) throw new ApiError("A name has 2 to 40 letters a–z, digits and “-”.", 400, "", "name");
      const wanted = this.#wanted();
      // A version that is refused leaves no endpoint behind that was not there.
      const fresh = !this.#known();
      if (fresh) await call(pathOf(name), { method: "PUT", body: { project: this.project.value, ...scaleOf(this.scale), ...this.audience.value } }).catch(taken);
      try {
        await call(/** @type {`models/${string}/versions`} */ (`${pathOf(name)}/versions`), { method: "POST", body: wanted });
      } catch (error) {
        if (fresh) await call(pathOf(name), { method: "DELETE" }).catch(() => null);
        throw error;
      }
      dialog.close();
      window.location.assign(pageOf(name));
    } catch (error) {
      if (!this.form.refuse(error.field, error.message)) this.refuse(error);
    }
  }
}

function taken(error) {
  throw error.status === 409 ? Object.assign(error, { field: "name" }) : error;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(`The body is no JSON: ${error.message}`, 400, "", "example.body");
  }
}
