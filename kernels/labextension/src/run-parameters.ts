/** The parameters in the dialog for a run: a row for each, and for scripts any number of rows. */
import { Styling } from '@jupyterlab/ui-components';

import type { Parameter } from './run-offer';
import { input, Row } from './run-row';

const HINT =
  'Separate values with commas. Each is combined with the values of the other parameters.';

export class Parameters {
  readonly node = document.createElement('fieldset');
  private readonly _rows = new Map<string, Row>(); // of a notebook, by parameter
  private readonly _free: [HTMLInputElement, Row][] = []; // of a script: name and values

  /**
   * `parameters`: null of a script or cell, `isCell` tells which; `values`: text by parameter, chosen
   * before.
   */
  constructor(
    parameters: Parameter[] | null,
    isCell: boolean,
    values: { [name: string]: string }
  ) {
    const legend = document.createElement('legend');
    legend.textContent = 'Parameters';
    this.node.append(legend, paragraph(words(parameters, isCell)));
    for (const { name, type, value, help } of parameters ?? []) {
      const usual = `${type || 'expression'}, default ${value}`;
      const note = help ? `${help} (${usual})` : usual;
      const row = new Row(name, input(values[name] ?? '', value), note);
      this._rows.set(name, row);
      this.node.append(row.node);
    }
    if (!parameters) {
      const add = document.createElement('button');
      add.type = 'button';
      add.textContent = 'Add parameter';
      add.addEventListener('click', () => this._add('', '', add).focus());
      this.node.append(add);
      Object.entries(values).forEach(([name, text]) => this._add(name, text, add));
    }
  }

  /** The text of those that have values. */
  get values(): { [name: string]: string } {
    const named: [string, string][] = [...this._rows].map(([name, row]) => [name, row.value]);
    named.push(...this._free.map(([name, row]): [string, string] => [name.value.trim(), row.value]));
    return Object.fromEntries(named.filter(([name, text]) => name && text));
  }

  /** The row of a parameter. */
  row(name: string): Row | undefined {
    const free = this._free.find(([control]) => control.value.trim() === name);
    return this._rows.get(name) ?? free?.[1];
  }

  get rows(): Row[] {
    return [...this._rows.values(), ...this._free.map(([, row]) => row)];
  }

  private _add(name: string, values: string, before: HTMLElement): HTMLInputElement {
    const number = this._free.length + 1;
    const named = input(name, 'name');
    named.setAttribute('aria-label', `Name of parameter ${number}`);
    const control = input(values, '0.1, 0.01');
    control.setAttribute('aria-label', `Values of parameter ${number}`);
    const row = new Row(named, control);
    this._free.push([named, row]);
    before.before(row.node);
    Styling.styleNode(row.node);
    return named;
  }
}

function words(parameters: Parameter[] | null, isCell: boolean): string {
  if (isCell) {
    return `They are variables, set before the cell’s code. ${HINT}`;
  }
  if (!parameters) {
    return `The script receives them as arguments: --name=value. ${HINT}`;
  }
  return parameters.length
    ? HINT
    : 'No cell has the tag “parameters”, so the notebook is executed once. To set parameters here, assign their default values in such a cell.';
}

function paragraph(text: string): HTMLElement {
  const made = document.createElement('p');
  made.textContent = text;
  return made;
}
