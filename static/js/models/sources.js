// Where a new version of a model comes from: a run's point, a folder, or the catalog of models.

import { call, facts } from "../api.js";
import { el, fill } from "../dom.js";
import { shortPath } from "../paths.js";
import { Row, input, select } from "../run/row.js";
import { filled } from "./fields.js";

const RUNS = 50;

export class Sources {
  // `chosen`: {run, point} to begin with; `models`: of the catalog; `onChange({...})` says what the choice suggests: environment,
  // version, folder, and a model of the catalog.
  constructor(chosen, models, onChange) {
    this.models = models;
    this.onChange = onChange;
    const kinds = [["run", "A point of a run"], ["folder", "A folder"], ...(models.length ? [["catalog", "The catalog of models"]] : [])];
    this.kind = new Row("From", select(kinds));
    this.run = new Row("Run", select([]));
    this.point = filled(new Row("Point", input("", 0)), chosen?.point ?? 0);
    this.folder = filled(new Row("Folder", input("~/models/mine"), "The program starts there."), "~");
    this.model = new Row("Model", select(models.map(({ name, title, offered }) => [name, offered ? title : `${title} (not offered)`])));
    this.about = el("p.portal-quiet", { role: "status" });
    this.node = el("div", this.kind.node, this.run.node, this.point.node, this.model.node, this.folder.node, this.about);
    this.rows = { "source.run": this.run, "source.point": this.point, "source.model": this.model, source: this.kind, folder: this.folder };
    if (!chosen) this.kind.control.value = models.length ? "catalog" : "folder";
    this.wanted = chosen;
    for (const { control } of [this.kind, this.run, this.point, this.model]) control.addEventListener("change", () => this.take());
  }

  // Reads the user's runs, and takes the choice.
  async begin() {
    const { items } = await call("runs", { query: { limit: RUNS } });
    const runs = items.map(({ id, name }) => [id, name]);
    if (this.wanted && !runs.some(([id]) => id === this.wanted.run)) runs.unshift([this.wanted.run, this.wanted.run]);
    fill(this.run.control, runs.map(([value, words]) => el("option", { value }, words)));
    if (this.wanted) this.run.control.value = this.wanted.run;
    await this.take();
  }

  async take() {
    const kind = this.kind.value;
    this.run.node.hidden = this.point.node.hidden = kind !== "run";
    this.model.node.hidden = kind !== "catalog";
    this.folder.node.hidden = kind === "catalog";
    fill(this.about);
    const asked = (this.asked = Symbol("asked"));
    if (kind === "catalog") this.onChange({ model: this.models.find(({ name }) => name === this.model.value) });
    else if (kind === "folder") this.onChange({});
    else if (this.run.value) {
      const found = await this.#point().catch((error) => ({ problem: error.message }));
      if (this.asked === asked) this.#show(found);
    } else fill(this.about, "You have no run.");
  }

  async #point() {
    const path = /** @type {`runs/${string}`} */ (`runs/${encodeURIComponent(this.run.value)}`);
    const number = this.point.value || "0";
    const [run, point] = await Promise.all([call(path), call(/** @type {`runs/${string}/points/${string}`} */ (`${path}/points/${encodeURIComponent(number)}`))]);
    // A later attempt has a folder of its own (portal_session/runs/execution/task.py).
    const folder = `${run.folder}/${number.padStart(4, "0")}${point.attempt > 1 ? `-${point.attempt}` : ""}`;
    return { run, point, folder };
  }

  #show({ problem = "", run = null, point = null, folder = "" }) {
    if (problem) {
      fill(this.about, problem);
      return;
    }
    this.folder.control.value = shortPath(folder, facts.user);
    const software = run.version ? `${run.environment}, version ${run.version}` : run.environment;
    const words = Object.keys(point.parameters).sort().map((name) => `${name} ${point.parameters[name]}`);
    fill(this.about, `Trained in ${software}${words.length ? ` with ${words.join(", ")}` : ""}; the point has ${point.state}.`);
    this.onChange({ environment: run.environment, version: run.version });
  }

  // As the API has it, with the folder in which the program starts.
  get value() {
    const kind = this.kind.value;
    if (kind === "catalog") return { source: { model: this.model.value } };
    const folder = this.folder.value;
    if (kind === "folder") return { folder, source: { folder } };
    return { folder, source: { run: this.run.value, point: Number(this.point.value), folder } };
  }
}
