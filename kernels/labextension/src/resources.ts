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
  gpu_types: string[];
}

interface StartAnswer {
  words: string;
  source: string;
  nearby: { label: string; words: string; changes: Options }[];
}

type Options = { [name: string]: string | number | null };

const PAUSE = 500; // milliseconds after the last change until it is asked when that would start
const FIELDS: [string, string, string][] = [
  ['gpus', 'GPUs', 'number'],
  ['gpu_type', 'GPU type', 'select'],
  ['cpus', 'CPUs', 'number'],
  ['memory', 'Memory', 'text'],
  ['time', 'Time from its start', 'text']
];
const NUMBERS = ['gpus', 'cpus'];

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
    for (const [name, title, kind] of FIELDS) {
      const label = document.createElement('label');
      const input = kind === 'select' ? this._types() : document.createElement('input');
      if (input instanceof HTMLInputElement) {
        input.type = kind;
        input.min = name === 'cpus' ? '1' : '0';
      }
      input.value = String(chosen[name] ?? (name === 'gpus' ? 0 : ''));
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
    for (const [name, input] of this._inputs) {
      const text = input.value.trim();
      if (text) {
        value[name] = NUMBERS.includes(name) && /^[0-9]{1,6}$/.test(text) ? Number(text) : text;
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

  private _types(): HTMLSelectElement {
    const select = document.createElement('select');
    for (const type of ['', ...this._before.gpu_types]) {
      select.add(new Option(type || 'any', type));
    }
    return select;
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
    const { environment, account, qos } = this._before.options;
    const kept = Object.entries({ environment, account, qos }).filter(([, value]) => !!value);
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

function paragraph(text: string): HTMLParagraphElement {
  const made = document.createElement('p');
  made.textContent = text;
  return made;
}
