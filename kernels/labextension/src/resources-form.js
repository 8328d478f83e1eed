// The form of resources, of a running session, a kernel or a run, as the portal's pages and JupyterLab show
// it: static/js/resources-form.js is a link to this file. It imports nothing, so that both can use it.

/**
 * As the portal's models BeforeMove, DialogField and StartAnswer have them. A field's `values` are the
 * choices, with `labels` where they are shown in other words, and `unset` for no value; null for free
 * input. `folded`: under "More".
 *
 * @typedef {{ [name: string]: unknown }} Options
 * @typedef {{ name: string, label: string, number: boolean, least: number, values: string[] | null, labels: { [value: string]: string }, unset: string, folded: boolean }} Field
 * @typedef {{ busy: string[] | null, options: Options, fields: Field[], kept: string[] }} Before
 * @typedef {{ label: string, words: string, changes: Options }} Nearby
 * @typedef {{ words: string, field: string, nearby: Nearby[] }} Answer
 * @typedef {{ row?: string, label?: string, input?: string, select?: string, button?: string, warning?: string, wrong?: string }} Classes
 */

const PAUSE = 500; // milliseconds from the last change to the request for an estimate
const LOST =
  "The session keeps running until the new job replaces it. Open documents are then saved and reopened, and terminals restart in the same folders. Kernels end and their variables are lost: save what you still need to files.";
const COMPUTING = "Code that is running here is stopped if it has not finished by then:";

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
    /** @type {Map<string, HTMLElement>} */
    this._problems = new Map();
    /** @type {{ field: string, sentence: string }} */
    this._refusal = { field: "", sentence: "" };
    this._timer = 0;
    this._asked = 0;
    this._when = element("div");
    this._when.setAttribute("role", "status");
    this.node = element("div");
    // Fields without choices are omitted.
    const fields = before.fields.filter(({ values }) => !values || values.length);
    const rows = (/** @type {Field[]} */ some) => some.map((field) => this._row(field, chosen[field.name]));
    this.node.append(...rows(fields.filter(({ folded }) => !folded)));
    const folded = fields.filter((field) => field.folded);
    if (folded.length) {
      const more = element("details");
      more.open = folded.some(({ name }) => (chosen[name] ?? "") !== (before.options[name] ?? ""));
      more.append(element("summary", "", `More: ${folded.map(inSentence).join(", ")}`), ...rows(folded));
      this.node.append(more);
    }
    this.node.append(this._when);
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

  /**
   * Shows a refusal beside its field until a field is changed; returns whether the form has that field.
   *
   * @param {string} field @param {string} sentence
   */
  refuse(field, sentence) {
    if (!this._inputs.has(field)) return false;
    this._refusal = { field, sentence };
    this._show(field, sentence);
    return true;
  }

  /** Stops requesting estimates. */
  dispose() {
    clearTimeout(this._timer);
    this._asked += 1;
  }

  /** @param {Field} field @param {unknown} now */
  _row(field, now) {
    const { name, label, number, least, values } = field;
    const { row, label: labelled, input: written, select, wrong } = this._classes;
    const input = values ? choice(field, values, now, select) : element("input", written);
    input.id = `move-${name}`;
    if (input instanceof HTMLInputElement) {
      input.type = number ? "number" : "text";
      if (number) input.min = String(least);
    }
    input.value = String(now ?? (number && !least ? 0 : ""));
    input.addEventListener("input", () => {
      this._refusal = { field: "", sentence: "" };
      this._changed();
    });
    this._inputs.set(name, input);
    const title = element("label", labelled, label);
    title.htmlFor = input.id;
    const problem = element("p", wrong);
    problem.id = `${input.id}-problem`;
    problem.hidden = true;
    this._problems.set(name, problem);
    problem.setAttribute("role", "alert");
    input.setAttribute("aria-describedby", problem.id);
    const made = element("div", row);
    made.append(title, input, problem);
    return made;
  }

  /** Shows the sentence beside the field, and beside no other. @param {string} field @param {string} sentence */
  _show(field, sentence) {
    for (const [name, problem] of this._problems) {
      const wrong = name === field;
      const words = wrong ? sentence : "";
      if (problem.textContent !== words) problem.textContent = words; // else it would be read again
      problem.hidden = !wrong;
      this._inputs.get(name)?.setAttribute("aria-invalid", String(wrong));
      const folded = wrong && problem.closest("details");
      if (folded) folded.open = true;
    }
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
    let refusal = this._refusal;
    try {
      const answer = await this._estimate({ ...same, ...this.value });
      const refused = this._inputs.has(answer.field);
      if (refused) refusal = { field: answer.field, sentence: answer.words };
      lines = refused ? [] : [element("p", "", answer.words), ...answer.nearby.map((nearby) => this._nearby(nearby))];
    } catch (error) {
      const { message = String(error), field = "" } = /** @type {{ message?: string, field?: string }} */ (error);
      const refused = this._inputs.has(field);
      if (refused) refusal = { field, sentence: message };
      lines = refused ? [] : [element("p", "", `The start time is unknown. ${message}`)];
    }
    if (asked !== this._asked) return;
    this._when.replaceChildren(...lines);
    this._show(refusal.field, refusal.sentence);
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

/** The label within a sentence: "memory", "QOS". @param {Field} field */
function inSentence({ label }) {
  return /^[A-Z][a-z]/.test(label) ? label[0].toLowerCase() + label.slice(1) : label;
}

/**
 * A select of the values and the current value, which may be none of them.
 *
 * @param {Field} field @param {string[]} values @param {unknown} now @param {string} [classes]
 */
function choice({ labels, unset }, values, now, classes) {
  const select = element("select", classes);
  for (const value of new Set(["", ...values, String(now ?? "")])) {
    select.add(new Option(value ? (labels[value] ?? value) : unset, value));
  }
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
