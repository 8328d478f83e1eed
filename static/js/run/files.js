// The notebooks and scripts of the session's folder, to choose one: a list of buttons that a button opens.

import { el, fill, hidden, icon } from "../dom.js";

const CAN_RUN = /\.(ipynb|py)$/;

export class Files {
  // `list(path)` resolves to the entries of a folder, as Jupyter has them; `onPick(path)`.
  constructor(list, onPick) {
    this.list = list;
    this.onPick = onPick;
    this.asked = 0;
    this.button = el("button.btn.btn-outline-contrast", { type: "button", "aria-expanded": "false", "aria-controls": "run-files", onclick: () => (this.place.hidden ? this.open("") : this.close()) }, "Browse…");
    this.place = el("div.run-files", { id: "run-files", hidden: true });
    for (const part of [this.button, this.place]) part.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  close() {
    this.asked += 1; // what is being read is not shown any more
    this.place.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
    this.button.focus();
  }

  async open(path) {
    const asked = ++this.asked;
    this.place.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    let entries, problem;
    try {
      entries = await this.list(path);
    } catch (error) {
      [entries, problem] = [[], `${error.message} You can also type the path.`];
    }
    if (asked !== this.asked) return;
    const known = entries.filter(({ type, name }) => type === "directory" || CAN_RUN.test(name));
    known.sort((one, other) => Number(other.type === "directory") - Number(one.type === "directory") || one.name.localeCompare(other.name));
    const parts = path.split("/").filter(Boolean);
    const above = parts.slice(0, -1).join("/");
    const words = problem ?? (known.length ? "" : "There is no notebook or script here.");
    fill(
      this.place,
      el("p", ["~", ...parts].join("/")),
      words ? el("p.portal-quiet", { role: "status" }, words) : null,
      el(
        "ul",
        { "aria-label": `Files in ${["~", ...parts].join("/")}` },
        parts.length ? this.#item("arrow-up", "..", "folder above", () => this.open(above)) : null,
        known.map(({ name, path: own, type }) =>
          type === "directory"
            ? this.#item("folder", name, "folder", () => this.open(own))
            : this.#item(name.endsWith(".py") ? "file-code" : "book", name, "", () => {
                this.close();
                this.onPick(own);
              }),
        ),
      ),
    );
    this.place.querySelector("button")?.focus();
  }

  #item(sign, name, kind, onclick) {
    return el("li", el("button", { type: "button", onclick }, icon(sign), " ", name, kind ? hidden(`, ${kind}`) : null));
  }
}
