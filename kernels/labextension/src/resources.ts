/** The dialog in which a running session's resources are chosen. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { ask } from './api';
import type { Move } from './situations';

/** As the portal's models BeforeMove and StartAnswer have them. */
interface Before {
  move: Move | null;
  busy: string[] | null;
  options: Options;
  fields: Field[];
  kept: string[];
}

/** As the portal's table of fields has it (portal/launch/fields.py). */
interface Field {
  name: string;
  label: string;
  number: boolean;
  least: number;
  values: string[] | null;
}

interface StartAnswer {
  words: string;
  source: string;
  nearby: { label: string; words: string; changes: Options }[];
}

type Options = { [name: string]: string | number | null };

const PAUSE = 500; // milliseconds after the last change until it is asked when that would start

/** Asks for other resources; whether a new job was queued. */
export async function changeResources(): Promise<boolean> {
  let before: Before;
  try {
    before = await ask<Before>('move');
  } catch (error) {
    Notification.error(wordsOf(error), { autoClose: false });
    return false;
  }
  let form = new Form(before, before.options);
  for (;;) {
    const answer = await showDialog({
      title: 'Change resources',
      body: form,
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Queue the new job' })],
      focusNodeSelector: 'input'
    });
    if (!answer.button.accept) {
      return false;
    }
    const chosen = answer.value as unknown as Options;
    try {
      await ask<Move>('move', chosen);
      return true;
    } catch (error) {
      form = new Form(before, { ...before.options, ...chosen }, wordsOf(error));
    }
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The dialog's body; its value is what the portal is asked for. */
class Form extends Widget {
  private readonly _inputs = new Map<string, HTMLInputElement | HTMLSelectElement>();
  private readonly _estimate = document.createElement('div');
  private _timer = 0;
  private _asked = 0;

  constructor(
    private readonly _before: Before,
    chosen: Options,
    problem = ''
  ) {
    super();
    this.addClass('portal-Resources');
    if (problem) {
      const alert = paragraph(problem);
      alert.setAttribute('role', 'alert');
      this.node.append(alert);
    }
    for (const { name, label: title, number, least, values } of this._before.fields) {
      if (values && !values.length) {
        continue; // nothing to choose from
      }
      const label = document.createElement('label');
      const input = values ? choice(values, chosen[name]) : document.createElement('input');
      if (input instanceof HTMLInputElement) {
        input.type = number ? 'number' : 'text';
        input.min = String(least);
      }
      input.value = String(chosen[name] ?? (number && !least ? 0 : ''));
      input.addEventListener('input', () => this._changed());
      this._inputs.set(name, input);
      label.append(title, input);
      this.node.append(label);
    }
    this._estimate.setAttribute('role', 'status');
    this.node.append(this._estimate, ...this._warnings());
    this._changed();
  }

  getValue(): Options {
    const value: Options = {};
    for (const { name, number } of this._before.fields) {
      const text = this._inputs.get(name)?.value.trim();
      if (text) {
        value[name] = number && /^[0-9]{1,6}$/.test(text) ? Number(text) : text;
      }
    }
    if (!value.gpus) {
      delete value.gpu_type;
    }
    return value;
  }

  dispose(): void {
    window.clearTimeout(this._timer);
    super.dispose();
  }

  private _warnings(): HTMLElement[] {
    const { busy } = this._before;
    const all: HTMLElement[] = [
      paragraph(
        'The session goes on until the new job can take its place. Then open documents are saved ' +
          'and opened again, and terminals begin in the same folders. Kernels end, and their ' +
          'variables go: what you still need must be in files.'
      )
    ];
    if (busy?.length) {
      const list = document.createElement('ul');
      for (const name of busy) {
        const item = document.createElement('li');
        item.textContent = name;
        list.append(item);
      }
      const words = paragraph('Computing now, and ended by the move if not done by then:');
      words.className = 'portal-mod-warn';
      all.push(words, list);
    } else if (busy) {
      all.push(paragraph('No kernel computes now.'));
    }
    return all;
  }

  private _changed(): void {
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => void this._ask(), PAUSE);
  }

  private async _ask(): Promise<void> {
    const asked = ++this._asked;
    const kept = Object.entries(this._before.options).filter(
      ([name, value]) => this._before.kept.includes(name) && !!value
    );
    let lines: HTMLElement[];
    try {
      const options = { ...Object.fromEntries(kept), ...this.getValue() };
      const answer = await ask<StartAnswer>('estimates', { options });
      lines = [paragraph(answer.words), ...answer.nearby.map(one => this._nearby(one))];
    } catch (error) {
      lines = [paragraph(`When it would start is not known. ${wordsOf(error)}`)];
    }
    if (asked === this._asked && !this.isDisposed) {
      this._estimate.replaceChildren(...lines);
    }
  }

  /** A choice that starts earlier; pressing it fills it in. */
  private _nearby(one: StartAnswer['nearby'][number]): HTMLElement {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = `${one.label}: ${one.words}`;
    button.addEventListener('click', () => {
      for (const [name, value] of Object.entries(one.changes)) {
        const input = this._inputs.get(name);
        if (input) {
          input.value = String(value ?? '');
        }
      }
      this._changed();
    });
    return button;
  }
}

/** The values to choose from, and what there is now, which may be none of them. */
function choice(values: string[], now: Options[string]): HTMLSelectElement {
  const select = document.createElement('select');
  for (const value of new Set(['', ...values, String(now ?? '')])) {
    select.add(new Option(value || 'any', value));
  }
  return select;
}

function paragraph(text: string): HTMLParagraphElement {
  const made = document.createElement('p');
  made.textContent = text;
  return made;
}
