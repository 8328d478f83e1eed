// The nodes and their GPUs: a grid row for each node, a cell for each GPU. One tab stop; arrow keys
// move between cells. Updates touch only what changed.

import { el, setText } from "./dom.js";
import { gpuSign, gpuWords } from "./words.js";

const DENSE = 400; // number of GPUs above which cells are small and without numbers
const FIRST = 150; // nodes painted before the others are built; more than fit on a screen

export class Grid {
  // `place` has role=grid. `onPoint(key)` is called with "NODE/INDEX", or "NODE" for the node
  // itself, when the mouse or the focus gets there; `onChoose(key)` on a click or Enter.
  constructor(place, model, { onPoint, onChoose }) {
    this.place = place;
    this.model = model;
    this.onChoose = onChoose;
    this.rows = new Map();
    this.cells = new Map();
    this.current = null;
    this.match = null;
    place.addEventListener("pointerover", (event) => {
      const key = keyOf(event.target);
      if (key && event.pointerType !== "touch") onPoint(key);
    });
    place.addEventListener("focusin", (event) => {
      const key = keyOf(event.target);
      if (!key) return;
      this.#stop(key);
      onPoint(key);
    });
    place.addEventListener("click", (event) => {
      const key = keyOf(event.target);
      if (!key) return;
      this.focus(key);
      onChoose(key);
    });
    place.addEventListener("keydown", (event) => this.#keys(event, onChoose));
  }

  // Rebuilds all rows. Resolves when all are in place; the first ones are painted earlier.
  async build() {
    const building = Symbol("build");
    this.building = building;
    this.dense = this.model.gpus.size > DENSE;
    this.place.classList.toggle("grid-dense", this.dense);
    const names = [...this.model.nodes.keys()];
    const { match } = this;
    this.place.setAttribute("aria-rowcount", names.length);
    this.rows.clear();
    this.cells.clear();
    const rows = (from, to) => names.slice(from, to).map((name, at) => this.#row(name, from + at + 1));
    this.place.replaceChildren(...rows(0, FIRST));
    if (names.length > FIRST) {
      await new Promise(requestAnimationFrame);
      if (this.building !== building) return;
      this.place.append(...rows(FIRST));
    }
    if (!this.cells.has(this.current) && !this.rows.has(this.current)) this.current = null;
    this.#stop(this.current ?? names[0]);
    if (match) this.filter(match);
  }

  #row(name, number) {
    const node = this.model.nodes.get(name);
    const row = el("div.node", { role: "row", "aria-rowindex": number });
    const head = el("div.node-head", { role: "rowheader", tabindex: "-1", dataset: { key: name } },
      el("span.node-name", name),
      el("span.node-type", node.gpu_types.join(", ") || "no GPU"),
      el("span.node-used", { "aria-hidden": "true" }, el("span.level-in")),
      el("span.node-words"),
    );
    row.append(head);
    this.rows.set(name, row);
    for (const gpu of this.model.gpusOf(name)) {
      const key = `${gpu.node}/${gpu.index}`;
      const cell = document.createElement("div");
      cell.setAttribute("role", "gridcell");
      cell.tabIndex = -1;
      cell.dataset.key = key;
      this.cells.set(key, cell);
      this.#paintGpu(cell, gpu);
      row.append(cell);
    }
    if (!node.gpus) row.append(el("div.node-cpus", { role: "gridcell" }));
    this.#paintNode(row, node);
    return row;
  }

  #paintNode(row, node) {
    const [used, words] = [...row.firstChild.children].slice(-2);
    used.title = `${node.cpus_allocated} of ${node.cpus} CPUs held`;
    used.firstChild.style.width = `${node.cpus ? (100 * node.cpus_allocated) / node.cpus : 0}%`;
    const text = node.usable && !node.asleep ? "" : [node.words, node.reason].filter(Boolean).join(" – ");
    setText(words, text);
    words.title = text;
    if (!node.gpus) setText(row.lastChild, `${node.cpus - node.cpus_allocated} of ${node.cpus} CPUs free`);
  }

  #paintGpu(cell, gpu) {
    const name = `gpu gpu-${gpu.state}${gpu.mine ? " gpu-mine" : ""}`;
    const off = cell.classList.contains("gpu-other") ? " gpu-other" : "";
    if (cell.className !== name + off) cell.className = name + off;
    setText(cell, gpuSign(gpu, this.dense));
    const words = gpuWords(gpu);
    if (cell.ariaLabel !== words) cell.ariaLabel = words;
  }

  // Paints what `touched` (of Model.apply) names.
  update(touched) {
    const rows = new Set(touched.nodes);
    for (const name of touched.nodes) {
      const row = this.rows.get(name);
      if (row) this.#paintNode(row, this.model.nodes.get(name)); // a missing row is built later
    }
    for (const key of touched.gpus) {
      const gpu = this.model.gpus.get(key);
      const cell = this.cells.get(key);
      if (!cell || !gpu) continue;
      this.#paintGpu(cell, gpu);
      rows.add(gpu.node);
    }
    if (this.match) this.filter(this.match, rows);
  }

  // Whether the filters let the node through.
  shows(name) {
    return !this.rows.get(name)?.hidden;
  }

  // Goes to the cell or node, as a click on it does.
  choose(key) {
    this.#element(key)?.scrollIntoView({ block: "center" });
    this.focus(key);
    this.onChoose(key);
  }

  // How many nodes are shown.
  get shown() {
    let shown = 0;
    for (const row of this.rows.values()) shown += row.hidden ? 0 : 1;
    return shown;
  }

  // Shows the nodes that `match` (null: all) selects, and dims their other GPUs.
  /** @param {any} match @param {Iterable<string>} names */
  filter(match, names = this.rows.keys()) {
    this.match = match;
    for (const name of names) {
      const row = this.rows.get(name);
      if (!row) continue;
      const node = this.model.nodes.get(name);
      const gpus = this.model.gpusOf(name);
      const found = match ? gpus.map((gpu) => match(node, gpu)) : gpus.map(() => true);
      row.hidden = Boolean(match) && !(found.includes(true) || (!gpus.length && match(node, null)));
      gpus.forEach((gpu, at) => {
        this.cells.get(`${gpu.node}/${gpu.index}`)?.classList.toggle("gpu-other", !found[at]);
      });
    }
    const stop = this.#element(this.current);
    if (!stop || stop.closest(".node").hidden) {
      const [first] = this.#shown();
      if (first) this.#stop(first);
    }
  }

  focus(key) {
    const element = this.#element(key);
    if (!element) return;
    this.#stop(key);
    element.focus();
  }

  // Marks the cell shown in the side panel.
  mark(key) {
    this.place.querySelector("[aria-selected]")?.removeAttribute("aria-selected");
    this.#element(key)?.setAttribute("aria-selected", "true");
  }

  #element(key) {
    return this.cells.get(key) ?? this.rows.get(key)?.firstChild;
  }

  // Makes `key` the tab stop.
  #stop(key) {
    const before = this.#element(this.current);
    if (before) before.tabIndex = -1;
    this.current = key;
    const element = this.#element(key);
    if (element) element.tabIndex = 0;
  }

  #shown() {
    const names = [];
    for (const [name, row] of this.rows) if (!row.hidden) names.push(name);
    return names;
  }

  #keys(event, onChoose) {
    const key = keyOf(event.target);
    if (!key || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onChoose(key);
      return;
    }
    const next = this.#next(key, event.key, event.ctrlKey);
    if (!next) return;
    event.preventDefault();
    this.focus(next);
    this.#element(next)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // Left and right move within the node and on to the next one; up and down move to the node above or
  // below on the screen, at the same position.
  #next(key, pressed, ctrl) {
    const shown = this.#shown();
    const name = key.split("/")[0];
    const at = shown.indexOf(name);
    const stops = (node) => [node, ...this.model.gpusOf(node).map((gpu) => `${gpu.node}/${gpu.index}`)];
    const here = stops(name);
    const column = here.indexOf(key);
    const inRow = (row) => {
      if (row < 0 || row >= shown.length) return null;
      const there = stops(shown[row]);
      return there[Math.min(column, there.length - 1)];
    };
    switch (pressed) {
      case "ArrowRight":
        return here[column + 1] ?? shown[at + 1];
      case "ArrowLeft":
        return here[column - 1] ?? (at > 0 ? stops(shown[at - 1]).at(-1) : null);
      case "ArrowDown":
        return inRow(at + this.#columns());
      case "ArrowUp":
        return inRow(at - this.#columns());
      case "PageDown":
        return inRow(Math.min(shown.length - 1, at + 5 * this.#columns()));
      case "PageUp":
        return inRow(Math.max(0, at - 5 * this.#columns()));
      case "Home":
        return ctrl ? stops(shown[0])[0] : here[0];
      case "End":
        return ctrl ? stops(shown.at(-1)).at(-1) : here.at(-1);
      default:
        return null;
    }
  }

  #columns() {
    return getComputedStyle(this.place).gridTemplateColumns.split(" ").length || 1;
  }
}

function keyOf(target) {
  return target.closest?.("[data-key]")?.dataset.key ?? null;
}

