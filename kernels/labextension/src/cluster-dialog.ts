/** The dialog for a new cluster, and the cell that makes it. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { ask } from './api';
import type { Clusters } from './clusters';
import { CLASSES } from './resources';
import { type Answer, type Before, type Options, ResourcesForm } from './resources-form';
import { input, Row, select } from './run-row';

const INSERT = 'notebook:insert-cell-below';
const WRITE = 'notebook:replace-selection';
const RUN = 'notebook:run-cell';
const WORKERS = 2;

/**
 * Asks for a new cluster, and makes it with a cell of the notebook that is open: so the notebook
 * shows what it needs. Without a notebook, the code is copied.
 */
export async function makeCluster(commands: CommandRegistry): Promise<void> {
  const [clusters, session] = await Promise.all([
    ask<Clusters>('clusters'),
    ask<Before>('move').catch(() => null)
  ]);
  const body = new Body(clusters, session);
  const inNotebook = commands.hasCommand(INSERT) && commands.isEnabled(INSERT);
  const { button, value } = await showDialog({
    title: 'New cluster',
    body,
    buttons: [
      Dialog.cancelButton(),
      Dialog.okButton({ label: inNotebook ? 'Add to notebook' : 'Copy code' })
    ],
    focusNodeSelector: 'input'
  });
  if (!button.accept || !value) {
    return;
  }
  if (inNotebook) {
    await commands.execute(INSERT);
    await commands.execute(WRITE, { text: value });
    await commands.execute(RUN);
    return;
  }
  await navigator.clipboard.writeText(value);
  Notification.success('The code is copied. Paste it into a cell of a notebook, and run that.', {
    autoClose: 8000
  });
}

/** The dialog's body; its value is the code. */
class Body extends Widget implements Dialog.IBodyWidget<string> {
  private readonly _engine: Row;
  private readonly _workers: Row;
  private readonly _keep = document.createElement('input');
  private readonly _form: ResourcesForm | null = null;

  /** `session`: its resources, with which the form begins; null: unknown. */
  constructor({ engines, most }: Clusters, session: Before | null) {
    super();
    this.addClass('portal-Resources');
    const kinds = engines.map(({ name, title }): [string, string] => [name, title]);
    this._engine = new Row('Engine', select(kinds));
    const number = input(String(Math.min(WORKERS, most)), '', 0);
    number.max = String(most);
    this._workers = new Row('Workers', number, `You can have ${most} in all clusters.`);
    this.node.append(this._engine.node, this._workers.node, this._kept());
    const keeps = (): void => {
      const engine = engines.find(({ name }) => name === this._engine.value);
      this._keep.disabled = !engine?.keeps;
    };
    this._engine.control.addEventListener('change', keeps);
    keeps();
    if (session) {
      const estimate = (options: Options) => ask<Answer>('estimates', { options });
      const before = { ...session, busy: null, kept: [] };
      this._form = new ResourcesForm(before, estimate, CLASSES, session.options, false);
      const title = document.createElement('p');
      title.textContent = 'Each worker is a Slurm job with:';
      this.node.append(title, this._form.node);
    }
  }

  getValue(): string {
    return codeOf(this._engine.value, this._workers.value, this._asked());
  }

  dispose(): void {
    this._form?.dispose();
    super.dispose();
  }

  private _kept(): HTMLElement {
    this._keep.type = 'checkbox';
    this._keep.id = 'portal-keep-cluster';
    const label = document.createElement('label');
    label.htmlFor = this._keep.id;
    label.textContent = 'Keep it after this session';
    const row = document.createElement('div');
    row.className = 'portal-KeepCluster';
    row.append(this._keep, label);
    return row;
  }

  /** The arguments after the number of workers. */
  private _asked(): Options {
    const asked = this._form?.value ?? {};
    return this._keep.checked && !this._keep.disabled ? { keep: true, ...asked } : asked;
  }
}

/** Returns the Python that makes a cluster: numbers, texts and `True` only. */
function codeOf(engine: string, workers: string, asked: Options): string {
  const count = /^\d+$/.test(workers) ? Number(workers) : 0;
  const literal = (value: unknown): string => (value === true ? 'True' : JSON.stringify(value));
  const more = Object.entries(asked).map(([name, value]) => `, ${name}=${literal(value)}`);
  const call = `cluster = ${engine}(${count}${more.join('')})`;
  return [
    `from portal_cluster import ${engine}`,
    '',
    call,
    engine === 'ray' ? 'ray = cluster.connect()' : 'client = cluster.client()',
    'cluster'
  ].join('\n');
}
