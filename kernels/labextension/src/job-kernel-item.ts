/** The item in the toolbar of a notebook or console: how its kernel in a job of its own is. */
import { type ISessionContext, Notification } from '@jupyterlab/apputils';
import type { IDisposable } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';

import type { JobKernelState, JobKernelStates } from './job-kernel-states';
import { situations } from './situations';
import { clock } from './words';

export class JobKernelItem extends Widget {
  private readonly _text = document.createElement('span');
  private readonly _cancel = button('Cancel', 'Cancel this kernel’s job', () => void this._end());
  private readonly _choose: HTMLButtonElement;
  private _watching: IDisposable | null = null;
  private _cancelled = ''; // the kernel that is being cancelled

  /** `choose` opens the dialog that gives this context another kernel. */
  constructor(
    private readonly _context: ISessionContext,
    private readonly _states: JobKernelStates,
    choose: () => void
  ) {
    super();
    this.addClass('portal-JobKernel');
    this._text.setAttribute('role', 'status');
    this._choose = button('GPUs…', 'Kernel with GPUs…', choose);
    this.node.append(this._text, this._cancel, this._choose);
    _states.changed.connect(this._draw, this);
    _context.kernelChanged.connect(this._draw, this);
    this._draw();
  }

  dispose(): void {
    this._watching?.dispose();
    this._states.changed.disconnect(this._draw, this);
    this._context.kernelChanged.disconnect(this._draw, this);
    super.dispose();
  }

  private _draw(): void {
    const kernel = this._context.session?.kernel;
    const state = kernel ? this._states.state(kernel.id) : undefined;
    const watched = !!state || !!kernel?.name.startsWith('job-');
    if (watched) {
      this._watching ??= this._states.watch();
    } else {
      this._watching?.dispose();
      this._watching = null;
    }
    const text = state ? wordsOf(state) : '';
    if (this._text.textContent !== text) {
      this._text.textContent = text;
    }
    this._text.title = state?.message || text; // also why it ends before its time limit
    this._cancel.hidden = state?.state !== 'waiting';
    this._cancel.disabled = !!kernel && this._cancelled === kernel.id;
    this._choose.hidden = !this._states.offer;
  }

  private async _end(): Promise<void> {
    this._cancelled = this._context.session?.kernel?.id ?? '';
    this._draw();
    try {
      await this._context.shutdown();
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      Notification.error(`The kernel could not be cancelled. ${why}`, { autoClose: false });
    }
    this._cancelled = '';
    this._draw();
  }
}

function wordsOf(kernel: JobKernelState): string {
  if (kernel.state === 'ended') {
    return `Ended: ${kernel.message}`;
  }
  if (kernel.state === 'running') {
    const left = ahead(kernel.ends_at);
    const until = left === null ? '' : ` until ${clock(left)}`;
    return kernel.node ? `On ${kernel.node}${until}` : kernel.message;
  }
  const details: string[] = [];
  if (kernel.position) {
    details.push(`${ordinal(kernel.position)} in the queue`);
  }
  const wait = ahead(kernel.expected_start);
  if (wait !== null && wait > 0) {
    details.push(`expected ${clock(wait)}`);
  }
  return `Waiting: ${details.length ? details.join(', ') : kernel.message}`;
}

/** Seconds from now, by the portal's clock; null if either is unknown. */
function ahead(time: number | null | undefined): number | null {
  return time && situations.now !== null ? time - situations.now : null;
}

/** As portal/models/words.py has it. */
function ordinal(number: number): string {
  const teens = number % 100 >= 11 && number % 100 <= 13;
  const ending = teens ? 'th' : (['th', 'st', 'nd', 'rd'][number % 10] ?? 'th');
  return `${number}${ending}`;
}

function button(text: string, label: string, click: () => void): HTMLButtonElement {
  const node = document.createElement('button');
  node.type = 'button';
  node.textContent = text;
  node.title = label;
  node.setAttribute('aria-label', label);
  node.addEventListener('click', click);
  return node;
}
