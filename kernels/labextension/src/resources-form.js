// The form of a running session's resources, as the portal's pages and JupyterLab both show it:
// static/js/resources-form.js is a link to this file. It imports nothing, so that both can have it.

/**
 * As the portal's models BeforeMove, MoveField and StartAnswer have them. A field's `values` are
 * those to choose from; null where it is written.
 *
 * @typedef {{ [name: string]: unknown }} Options
 * @typedef {{ name: string, label: string, number: boolean, least: number, values: string[] | null }} Field
 * @typedef {{ busy: string[] | null, options: Options, fields: Field[], kept: string[] }} Before
 * @typedef {{ label: string, words: string, changes: Options }} Nearby
 * @typedef {{ words: string, nearby: Nearby[] }} Answer
 * @typedef {{ row?: string, label?: string, input?: string, select?: string, button?: string, warning?: string }} Classes
 */

const PAUSE = 500; // milliseconds after the last change until it is asked when that would start
const LOST =
  "The session goes on until the new job can take its place. Then open documents are saved and opened again, and terminals begin in the same folders. Kernels end, and their variables go: what you still need must be in files.";
const COMPUTING = "Computing now, and ended by the move if not done by then:";

export class ResourcesForm {
  /**
   * Fields with what there is now (or `chosen`), when that would start, and what a move ends.
   *
   * @param {Before} before
   * @param {(options: Options) => Promise<Answer>} estimate asks when these options would start
   * @param {Classes} classes of the page's own style
   * @param {Options} chosen
   */
  constructor(before, estimate, classes = {}, chosen = before.options) {
    this._before = before;
    this._estimate = estimate;
    this._classes = classes;
    /** @type {Map<string, HTMLInputElement | HTMLSelectElement>} */
    this._inputs = new Map();
    this._timer = 0;
    this._asked = 0;
    this._when = element("div");
    this._when.setAttribute("role", "status");
    this.node = element("div");
    // One without anything to choose from is left out.
    const fields = before.fields.filter(({ values }) => !values || values.length);
    this.node.append(...fields.map((field) => this._row(field, chosen[field.name])), this._when, ...this._warnings());
    this._changed();
  }

  /** What the portal is asked for. @returns {Options} */
  get value() {
    /** @type {Options} */
    const value = {};
    for (const { name, number } of this._before.fields) {
      const text = this._inputs.get(name)?.value.trim();
      if (text) value[name] = number && Number.isFinite(Number(text)) ? Number(text) : text;
    }
    if (!value.gpus) delete value.gpu_type;
    return value;
  }

  focus() {
    this._inputs.get("gpus")?.focus();
  }

  /** Asks nothing any more. */
  dispose() {
    clearTimeout(this._timer);
    this._asked += 1;
  }

  /** @param {Field} field @param {unknown} now */
  _row({ name, label, number, least, values }, now) {
    const { row, label: labelled, input: written, select } = this._classes;
    const input = values ? choice(values, now, select) : element("input", written);
    input.id = `move-${name}`;
    if (input instanceof HTMLInputElement) {
      input.type = number ? "number" : "text";
      if (number) input.min = String(least);
    }
    input.value = String(now ?? (number && !least ? 0 : ""));
    input.addEventListener("input", () => this._changed());
    this._inputs.set(name, input);
    const title = element("label", labelled, label);
    title.htmlFor = input.id;
    const made = element("div", row);
    made.append(title, input);
    return made;
  }

  _warnings() {
    const { busy } = this._before;
    const lost = element("p", "", LOST);
    if (!busy) return [lost]; // its server does not say what computes
    if (!busy.length) return [lost, element("p", "", "No kernel computes now.")];
    const list = element("ul");
    list.append(...busy.map((name) => element("li", "", name)));
    return [lost, element("p", this._classes.warning, COMPUTING), list];
  }

  _changed() {
    clearTimeout(this._timer);
    this._timer = window.setTimeout(() => void this._ask(), PAUSE);
  }

  async _ask() {
    const asked = ++this._asked;
    const { options, kept } = this._before;
    const same = Object.fromEntries(kept.filter((name) => options[name]).map((name) => [name, options[name]]));
    /** @type {HTMLElement[]} */
    let lines;
    try {
      const answer = await this._estimate({ ...same, ...this.value });
      lines = [element("p", "", answer.words), ...answer.nearby.map((one) => this._nearby(one))];
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      lines = [element("p", "", `When it would start is not known. ${why}`)];
    }
    if (asked === this._asked) this._when.replaceChildren(...lines);
  }

  /** A choice that starts earlier; pressing it fills it in. @param {Nearby} one */
  _nearby({ label, words, changes }) {
    const button = element("button", this._classes.button, `${label}: ${words}`);
    button.type = "button";
    button.addEventListener("click", () => {
      for (const [name, value] of Object.entries(changes)) {
        const input = this._inputs.get(name);
        if (input) input.value = String(value ?? "");
      }
      this._changed();
    });
    return button;
  }
}

/**
 * The values to choose from, and what there is now, which may be none of them.
 *
 * @param {string[]} values @param {unknown} now @param {string} [classes]
 */
function choice(values, now, classes) {
  const select = element("select", classes);
  for (const value of new Set(["", ...values, String(now ?? "")])) select.add(new Option(value || "any", value));
  return select;
}

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag @param {string} [classes] @param {string} [text]
 */
function element(tag, classes = "", text = "") {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text) made.textContent = text;
  return made;
}
