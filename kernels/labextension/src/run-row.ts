/** A row of the dialog for a run: a label, an input or select, and what is wrong with it. */

type Control = HTMLInputElement | HTMLSelectElement;

let made = 0; // for ids

export class Row {
  readonly node = document.createElement('div');
  private readonly _problem = document.createElement('p');
  private readonly _note = document.createElement('p');

  /** `label`: its text, or another control in its place; `note`: shown below the control. */
  constructor(
    label: string | HTMLElement,
    readonly control: Control,
    note = ''
  ) {
    const id = (control.id ||= `portal-run-${made++}`);
    this._note.id = `${id}-note`;
    this._note.textContent = note;
    this._note.hidden = !note;
    this._problem.id = `${id}-problem`;
    this._problem.className = 'portal-mod-wrong';
    this._problem.setAttribute('role', 'alert');
    this._problem.hidden = true;
    control.setAttribute('aria-describedby', `${this._note.id} ${this._problem.id}`);
    const right = document.createElement('div');
    right.append(control, this._note, this._problem);
    this.node.className = 'portal-RunRow';
    this.node.append(typeof label === 'string' ? labelFor(id, label) : label, right);
  }

  get value(): string {
    return this.control.value.trim();
  }

  /** Shows the sentence beside the control; '' if nothing is wrong with it. */
  show(problem: string): void {
    if (this._problem.textContent !== problem) {
      this._problem.textContent = problem;
    }
    this._problem.hidden = !problem;
    this.control.setAttribute('aria-invalid', String(!!problem));
  }
}

function labelFor(id: string, text: string): HTMLElement {
  const label = document.createElement('label');
  label.htmlFor = id;
  label.textContent = text;
  return label;
}

/** A select of values with their labels; the first one is chosen if `value` is none of them. */
export function select(options: [value: string, label: string][], value = ''): HTMLSelectElement {
  const control = document.createElement('select');
  for (const [each, label] of options) {
    control.add(new Option(label, each));
  }
  control.selectedIndex = Math.max(
    0,
    options.findIndex(([each]) => each === value)
  );
  return control;
}

/** An input for text, or for whole numbers of at least `least`. */
export function input(value: string, placeholder = '', least?: number): HTMLInputElement {
  const control = document.createElement('input');
  control.type = least === undefined ? 'text' : 'number';
  if (least !== undefined) {
    control.min = String(least);
  }
  control.value = value;
  control.placeholder = placeholder;
  control.spellcheck = false;
  control.autocomplete = 'off';
  return control;
}
