// Runs that are chosen in the list, by checkboxes: two to four can be compared, any number deleted. A choice stays
// while the list is sorted, filtered and turned; one that can be compared also on the way back from the comparison.

import { call, facts } from "../api.js";
import { ask, toast } from "../dialog.js";
import { byId, el, fill, hidden, setText } from "../dom.js";
import { keepInAddress } from "../filters.js";
import { count } from "../words.js";

const MOST = 4; // runs that can be compared
const LETTERS = ["a", "b", "c", "d"];

export class Selection {
  // `onDelete()` is called after runs were deleted.
  constructor(onDelete) {
    const kept = new URLSearchParams(window.location.search).get("chosen");
    this.chosen = new Map((kept ? kept.split(",") : []).map((id) => [id, null])); // runs by id; null: not seen yet
    this.boxes = new Map(); // checkboxes by id
    this.shown = [];
    this.onDelete = onDelete;
    byId("delete").addEventListener("click", () => this.#delete());
    byId("choose-all").addEventListener("click", () => {
      for (const run of this.shown) this.chosen.set(run.id, run);
      this.#show();
    });
    byId("choose-none").addEventListener("click", () => {
      this.chosen.clear();
      this.#show();
    });
    this.#show();
  }

  // The runs of the page that is shown.
  offer(runs) {
    this.shown = runs;
    for (const run of runs) if (this.chosen.has(run.id)) this.chosen.set(run.id, run);
    this.#show();
  }

  // Puts the run's checkbox into a cell; it stays the same element.
  paint(cell, run) {
    if (cell.firstChild) return;
    const box = el("input.form-check-input", { type: "checkbox", onchange: () => this.#choose(run, box.checked) });
    this.boxes.set(run.id, box);
    cell.append(el("label.run-choice", box, hidden(`Select ${run.name}`)));
  }

  #choose(run, on) {
    if (on) this.chosen.set(run.id, run);
    else this.chosen.delete(run.id);
    this.#show();
  }

  #show() {
    const ids = [...this.chosen.keys()];
    for (const [id, box] of this.boxes) box.checked = this.chosen.has(id);
    const comparable = ids.length >= 2 && ids.length <= MOST;
    const query = ids.map((id, at) => `${LETTERS[at]}=${encodeURIComponent(id)}`).join("&");
    byId("compare").hidden = !comparable;
    byId("compare").href = `${facts.prefix}runs/compare?${query}`;
    setText(byId("compare"), `Compare ${ids.length} runs`);
    keepInAddress({ chosen: ids.length <= MOST ? ids.join(",") : "" });
    const more = ids.length === 1 ? " Choose another run to compare with." : ids.length > MOST ? " At most four runs can be compared." : "";
    setText(byId("chosen-words"), ids.length ? `${count(ids.length, "run")} selected.${more}` : "");
    byId("chosen").hidden = !ids.length;
    byId("choose-all").hidden = this.shown.every((run) => this.chosen.has(run.id));
    setText(byId("choose-all"), `Select all ${this.shown.length} on this page`);
    setText(byId("delete"), `Delete ${count(ids.length, "run")}…`);
  }

  async #delete() {
    const runs = [...this.chosen].map(([id, run]) => run ?? { id, name: id, ended_at: 0 });
    const living = runs.filter((run) => run.ended_at === null).map((run) => run.name);
    const sure = await ask({
      title: `Delete ${count(runs.length, "run")}?`,
      text: [
        "Their points and curves are deleted from the portal. Their files stay.",
        living.length ? `${count(living.length, "run")} of these ${living.length === 1 ? "has" : "have"} not ended, and will be refused: ${living.join(", ")}.` : "",
      ].filter(Boolean).join(" "),
      action: `Delete ${count(runs.length, "run")}`,
      danger: true,
    });
    if (sure === null) return;
    const refused = [];
    for (const { id, name } of runs) {
      try {
        await call(`runs/${encodeURIComponent(id)}/record`, { method: "DELETE" });
        this.#forget(id);
      } catch (error) {
        refused.push([name, error.message]);
      }
    }
    const deleted = runs.length - refused.length;
    if (deleted) toast(`${count(deleted, "run")} ${deleted === 1 ? "is" : "are"} deleted.`);
    fill(
      byId("refused"),
      refused.length
        ? el(
            "div.alert.alert-warning",
            el("p", `${count(refused.length, "run")} ${refused.length === 1 ? "was" : "were"} not deleted:`),
            el("ul", refused.map(([name, why]) => el("li", el("strong", name), `: ${why}`))),
          )
        : null,
    );
    this.#show();
    this.onDelete();
  }

  #forget(id) {
    this.chosen.delete(id);
    this.boxes.delete(id);
  }
}
