/** The dialog for a running session's resources. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { ask, PortalError } from './api';
import {
  type Answer,
  type Before,
  type Options,
  ResourcesForm
} from './resources-form';
import type { Move } from './situations';

/** Asks for other resources; returns whether a new job was queued. */
export async function changeResources(): Promise<boolean> {
  let before: Before;
  try {
    before = await ask<Before>('move');
  } catch (error) {
    Notification.error(wordsOf(error), { autoClose: false });
    return false;
  }
  let body = new Body(before, before.options);
  for (;;) {
    const answer = await showDialog({
      title: 'Change resources',
      body,
      buttons: [
        Dialog.cancelButton(),
        Dialog.okButton({ label: 'Queue new job' })
      ],
      focusNodeSelector: 'input'
    });
    if (!answer.button.accept || !answer.value) {
      return false;
    }
    try {
      await ask<Move>('move', answer.value);
      return true;
    } catch (error) {
      const chosen = { ...before.options, ...answer.value };
      body = new Body(before, chosen, error);
    }
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** CSS classes of JupyterLab's dialogs for the form. */
export const CLASSES = { wrong: 'portal-mod-wrong' };

/** Shows a refusal beside its field; returns the alert for one of no field. */
export function alerts(form: ResourcesForm, problem: unknown): HTMLElement[] {
  const field = problem instanceof PortalError ? problem.field : '';
  if (!problem || form.refuse(field, wordsOf(problem))) {
    return [];
  }
  const alert = document.createElement('p');
  alert.textContent = wordsOf(problem);
  alert.setAttribute('role', 'alert');
  return [alert];
}

/** The dialog's body; its value is the requested resources. */
class Body extends Widget implements Dialog.IBodyWidget<Options> {
  private readonly _form: ResourcesForm;

  constructor(before: Before, chosen: Options, problem?: unknown) {
    super();
    this.addClass('portal-Resources');
    const estimate = (options: Options) => ask<Answer>('estimates', { options });
    const classes = { ...CLASSES, warning: 'portal-mod-warn' };
    this._form = new ResourcesForm(before, estimate, classes, chosen);
    this.node.append(...alerts(this._form, problem), this._form.node);
  }

  getValue(): Options {
    return this._form.value;
  }

  dispose(): void {
    this._form.dispose();
    super.dispose();
  }
}
