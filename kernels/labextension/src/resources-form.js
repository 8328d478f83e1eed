// The form of resources, of a running session or a kernel, as the portal's pages and JupyterLab show it:
// static/js/resources-form.js is a link to this file. It imports nothing, so that both can use it.

/**
 * As the portal's models BeforeMove, MoveField and StartAnswer have them. A field's `values` are
 * the choices; null for free input.
 *
 * @typedef {{ [name: string]: unknown }} Options
 * @typedef {{ name: string, label: string, number: boolean, least: number, values: string[] | null }} Field
 * @typedef {{ busy: string[] | null, options: Options, fields: Field[], kept: string[] }} Before
 * @typedef {{ label: string, words: string, changes: Options }} Nearby
 * @typedef {{ words: string, nearby: Nearby[] }} Answer
 * @typedef {{ row?: string, label?: string, input?: string, select?: string, button?: string, warning?: string }} Classes
 */

const PAUSE = 500; // milliseconds from the last change to the request for an estimate
const LOST =
  "The session keeps running until the new job replaces it. Open documents are then saved and reopened, and terminals restart in the same folders. Kernels end and their variables are lost: save what you still need to files.";
const COMPUTING = "Running code now, and stopped by the change if not finished by then:";

export class ResourcesForm {
  /**
   * Fields with the current values (or `chosen`), the estimated start, and what a move ends, unless
   * `warnings` is false.
   *
   * @param {Before} before
   * @param {(options: Options) => Promise<Answer>} estimate asks when these options would start
   * @param {Classes} classes CSS classes of the page
   * @param {Options} chosen
   * @param {boolean} warnings
   */
  constructor(before, estimate, classes = {}, chosen = before.options, warnings = true) {
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
    // Fields without choices are omitted.
    const fields = before.fields.filter(({ values }) => !values || values.length);
    this.node.append(...fields.map((field) => this._row(field, chosen[field.name])), this._when);
    if (warnings) this.node.append(...this._warnings());
    this._changed();
  }

  /** The requested resources. @returns {Options} */
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

  /** Stops requesting estimates. */
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
    if (!busy) return [lost]; // the server does not report running kernels
    if (!busy.length) return [lost, element("p", "", "No kernel is running code.")];
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
      lines = [element("p", "", answer.words), ...answer.nearby.map((nearby) => this._nearby(nearby))];
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      lines = [element("p", "", `The start time is unknown. ${why}`)];
    }
    if (asked === this._asked) this._when.replaceChildren(...lines);
  }

  /** A choice that starts earlier; the button fills it in. @param {Nearby} nearby */
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
 * A select of the values and the current value, which may be none of them.
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
