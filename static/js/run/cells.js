// The cells of a point's notebook as text. A cell stays the same element, so that a selection and the
// focus stay too.

import { el, setText } from "../dom.js";

const WORDS = { waiting: "has not run", running: "is running", failed: "failed", done: "" };

export class CellList {
  #cells = new Map(); // by their number, or by their place among those without one

  constructor() {
    this.place = el("ol.output-cells");
    this.current = null; // the element of the cell that runs or failed
    this.failed = false;
    this.shown = [];
  }

  show(output) {
    this.shown = output.cells;
    this.current = null;
    const before = this.#cells;
    this.#cells = new Map();
    let number = 0;
    for (const cell of output.cells) {
      number = cell.cell ?? number + 0.001; // a text has its place after the cell before it
      const made = before.get(number) ?? makeCell();
      before.delete(number);
      this.#cells.set(number, made);
      paint(made, cell);
      if (cell.state === "running" || cell.state === "failed") this.current = made.element;
    }
    this.failed = output.cells.some((cell) => cell.state === "failed");
    for (const { element } of before.values()) element.remove();
    let next = this.place.firstElementChild;
    for (const { element } of this.#cells.values()) {
      if (element === next) next = next.nextElementSibling;
      else this.place.insertBefore(element, next);
    }
  }

  // The cells as one text, for a file.
  text() {
    return this.shown.map((cell) => [title(cell), cell.source, cell.output].filter(Boolean).join("\n\n")).join("\n\n");
  }
}

function title({ cell, state }) {
  if (cell === null) return "";
  return WORDS[state] ? `Cell ${cell} ${WORDS[state]}` : `Cell ${cell}`;
}

function makeCell() {
  const made = { head: el("span.cell-title"), source: el("pre.cell-source"), output: el("pre.cell-output") };
  return { ...made, element: el("li.output-cell", { tabindex: "-1" }, made.head, made.source, made.output) };
}

function paint(made, cell) {
  made.element.className = `output-cell cell-is-${cell.state} cell-is-${cell.kind}`;
  setText(made.head, title(cell));
  made.head.hidden = cell.cell === null;
  setText(made.source, cell.source);
  setText(made.output, cell.output);
  made.output.hidden = !cell.output;
}
