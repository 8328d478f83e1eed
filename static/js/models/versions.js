// The versions of a model: where each comes from, and its share of the traffic.

import { call } from "../api.js";
import { confirmed } from "../dialog.js";
import { byId, el, hidden, setText } from "../dom.js";
import { openForm } from "../forms.js";
import { Table } from "../table.js";
import { clock, count, exactly } from "../words.js";
import { measured } from "../run/axes.js";
import { metric, value } from "../run/view.js";
import { lineage, pathOf } from "./words.js";

export class Versions {
  // `own`: the user may change the shares; `onDone()` after a change.
  constructor(own, onDone) {
    this.onDone = onDone;
    this.table = new Table(byId("versions"), {
      label: "versions-title",
      key: ({ number }) => String(number),
      columns: [
        { head: "Version", wide: true, cell: (version) => [el("span.first", `Version ${version.number}`), el("span.second.model-wide", made(version))] },
        { head: "Environment", cell: (version) => [version.environment, el("span.second", version.environment_version ? `version ${version.environment_version}` : "", version.digest ? ` image ${shortDigest(version.digest)}` : "")] },
        { head: "Program", cell: ({ command }) => el("code.model-wide", shortly(command.join(" "))) },
        { head: "Added", cell: ({ created_at: at }) => el("span.nowrap", { title: exactly(at) }, clock(at)) },
        { head: "Traffic", number: true, cell: ({ share }) => `${share} %` },
        ...(own ? [{ head: "", cell: (version) => this.#actions(version) }] : []),
      ],
    });
  }

  show(model) {
    this.model = model;
    byId("versions").removeAttribute("aria-busy");
    setText(byId("versions-count"), model.versions.length ? count(model.versions.length, "version") : "");
    this.table.show(model.versions, "No version yet. Add one.");
  }

  #actions(version) {
    const whole = version.share === 100 && !version.failures;
    const button = (words, act) => el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: act }, words, hidden(` for version ${version.number}`));
    return el(
      "div.entry-actions",
      whole ? null : button(version.failures ? "Try again" : "Send all traffic here", () => this.#all(version)),
      this.model.versions.length > 1 ? button("Share…", () => this.#share(version)) : null,
    );
  }

  async #all({ number, share }) {
    const before = this.model.versions.filter((other) => other.share && other.number !== number).map((other) => other.number);
    const text = `Version ${number} gets all requests once its replicas have answered the example.${before.length ? ` Until then, version ${before.join(" and ")} answers.` : ""}`;
    const question = { title: `Send all traffic to version ${number}?`, text: share === 100 ? "Its replicas failed. They are tried again." : text, action: share === 100 ? "Try again" : "Send all traffic" };
    await confirmed(question, () => this.#put({ [number]: 100 }), `Version ${number} gets all traffic.`);
    this.onDone();
  }

  // Asks for the percentage of one version; the others keep their proportions.
  #share(version) {
    const input = el("input.form-control", { id: "share", type: "number", min: 1, max: 100, required: true });
    input.value = String(version.share || 10);
    const send = async () => {
      const share = Number(input.value);
      const others = this.model.versions.filter((other) => other.number !== version.number && other.share);
      const whole = others.reduce((sum, other) => sum + other.share, 0);
      const kept = others.map((other) => [other.number, Math.max(share < 100 ? 1 : 0, Math.round(((100 - share) * other.share) / whole))]);
      await this.#put({ ...Object.fromEntries(kept), [version.number]: share });
      dialog.close();
      this.onDone();
    };
    const dialog = openForm({
      id: "share-dialog",
      title: `Share of version ${version.number}`,
      text: "The other versions keep their proportions of the rest.",
      content: [el("label.form-label", { for: "share" }, "Percent of the traffic"), input],
      action: "Set share",
      first: input,
      send,
    });
  }

  #put(shares) {
    return call(/** @type {`models/${string}/shares`} */ (`${pathOf(this.model.name)}/shares`), { method: "PUT", body: { shares } });
  }
}

const shortDigest = (digest) => digest.replace(/^sha256:/, "").slice(0, 12);
const shortly = (text) => (text.length > 120 ? `${text.slice(0, 120)}…` : text);

// Lineage, and the parameters and metrics of a point.
function made(version) {
  const { parameters = {}, metrics = {}, digest } = version.source;
  const said = [
    ...Object.keys(parameters).sort().map((name) => ` · ${name} ${value(parameters[name])}`),
    ...measured(Object.keys(metrics)).map((name) => ` · ${name} ${metric(metrics[name])}`),
  ];
  const problem = version.problem ? el("span.why", ` ${version.problem}`) : null;
  return el("span", lineage(version), said.slice(0, 8).join(""), digest ? ` · code ${shortDigest(digest)}` : "", problem);
}
