/** The dialog for a kernel in a Slurm job of its own: environment, kernel and resources. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Styling } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { ask } from './api';
import type { KernelEnvironment, Offer } from './job-kernel-states';
import { alerts, CLASSES } from './resources';
import { type Answer, type Options, ResourcesForm } from './resources-form';

/**
 * Asks for a kernel, beginning with `now`: a kernel's name, and the environment and resources if it
 * is such a kernel. Returns the name of its kernelspec, null if the dialog was cancelled.
 */
export async function chooseJobKernel(offer: Offer, now: Options): Promise<string | null> {
  let body = new Body(offer, now);
  for (;;) {
    const answer = await showDialog({
      title: 'Kernel with GPUs',
      body,
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Start kernel' })],
      focusNodeSelector: 'select'
    });
    if (!answer.button.accept || !answer.value) {
      return null;
    }
    try {
      return (await ask<{ name: string }>('job-kernels', answer.value)).name;
    } catch (error) {
      body = new Body(offer, answer.value, error);
    }
  }
}

/** A kernel of an environment. */
interface Choice {
  environment: KernelEnvironment;
  kernel: string;
  label: string;
}

/** The dialog's body; its value has `environment`, `kernel` and the resources. */
class Body extends Widget implements Dialog.IBodyWidget<Options> {
  private readonly _choices: Choice[];
  private readonly _select = document.createElement('select');
  private _shown: HTMLElement = document.createElement('div'); // the form's node
  private _form!: ResourcesForm;
  private _first = '{}'; // the form's values before the user changed them

  constructor(
    private readonly _offer: Offer,
    now: Options,
    problem?: unknown
  ) {
    super();
    this.addClass('portal-Resources');
    this._choices = _offer.items.flatMap(environment =>
      environment.kernels.map(({ name, title }) => ({
        environment,
        kernel: name,
        label: `${title} · ${environment.title}`
      }))
    );
    const same = ({ environment, kernel }: Choice, name: unknown): boolean =>
      kernel === now.kernel && environment.environment === name;
    const known = this._choices.findIndex(choice => same(choice, now.environment));
    const similar = this._choices.findIndex(choice => same(choice, choice.environment.environment));
    const top = document.createElement('div');
    top.append(this._row(Math.max(0, known >= 0 ? known : similar)));
    this.node.append(top, this._shown, ...notes(_offer));
    this._show(known >= 0 ? now : undefined);
    this.node.prepend(...alerts(this._form, problem));
    this._select.addEventListener('change', () => {
      const value = this._form.value;
      this._show(JSON.stringify(value) === this._first ? undefined : value);
      Styling.styleNode(this._form.node);
    });
  }

  getValue(): Options {
    return this._options(this._form.value);
  }

  dispose(): void {
    this._form.dispose();
    super.dispose();
  }

  private get _choice(): Choice {
    return this._choices[this._select.selectedIndex];
  }

  private _row(selected: number): HTMLElement {
    this._choices.forEach(({ label }) => this._select.add(new Option(label)));
    this._select.selectedIndex = selected;
    this._select.id = 'portal-job-kernel';
    const label = document.createElement('label');
    label.htmlFor = this._select.id;
    label.textContent = 'Kernel';
    const row = document.createElement('div');
    row.append(label, this._select);
    return row;
  }

  /** The fields of the selected environment, with its default resources or those of `chosen`. */
  private _show(chosen?: Options): void {
    const { environment } = this._choice;
    const options = { ...environment.default, gpus: environment.default.gpus || 1 };
    const fields = this._offer.fields.map(field =>
      field.name === 'gpu_type' ? { ...field, values: environment.gpu_types } : field
    );
    const known = !chosen?.gpu_type || environment.gpu_types.includes(String(chosen.gpu_type));
    const values = { ...options, ...chosen, ...(known ? {} : { gpu_type: '' }) };
    const estimate = (asked: Options) =>
      ask<Answer>('job-kernels/estimate', { options: this._options(asked) });
    this._form?.dispose();
    const before = { busy: null, options, fields, kept: [] };
    this._form = new ResourcesForm(before, estimate, CLASSES, values, false);
    if (!chosen) {
      this._first = JSON.stringify(this._form.value);
    }
    this._shown.replaceWith(this._form.node);
    this._shown = this._form.node;
  }

  private _options(resources: Options): Options {
    const { environment, kernel } = this._choice;
    return { ...resources, environment: environment.environment, kernel };
  }
}

function notes({ per_user, simulated }: Offer): HTMLElement[] {
  const most = per_user ? ` You can have ${per_user} at once.` : '';
  const kept = 'Cells that you run while the job waits are queued.';
  const texts = [`The kernel runs in a Slurm job of its own. ${kept}${most}`];
  if (simulated) {
    texts.unshift('The GPUs of this cluster are simulated.');
  }
  return texts.map(paragraph);
}

function paragraph(text: string): HTMLElement {
  const made = document.createElement('p');
  made.textContent = text;
  return made;
}
