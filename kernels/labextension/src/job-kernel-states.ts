/**
 * Kernels in Slurm jobs of their own: what is offered, and the states of those in open notebooks,
 * both from the session's server (portal_session.job_kernels.extension).
 */
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { ask, PortalError } from './api';
import type { Field, Options } from './resources-form';

const EVERY = 3000; // milliseconds between two requests while a notebook has such a kernel
const SOON = 5000; // a new session's server does not know at once what is offered
const TRIES = 12;

// As portal/work/kernel/endpoints.py, portal/models/catalog/environment.py and
// portal/work/kernel/states.py have them (tests/integration/kernels/test_lab_extension.py).
export interface Kernel {
  name: string;
  title: string;
}

export interface KernelEnvironment {
  environment: string;
  title: string;
  kernels: Kernel[];
  gpu_types: string[];
  default: Options;
}

/** The times are Unix seconds. */
export interface JobKernelState {
  id: string;
  state: string;
  message: string;
  node: string;
  ends_at: number | null;
  position: number | null;
  expected_start: number | null;
}

/** What is offered; the server adds the states of this session's kernels, by id. */
export interface Offer {
  items: KernelEnvironment[];
  fields: Field[];
  per_user: number;
  simulated: boolean;
}

type Answer = Partial<Offer> & { kernels: { [id: string]: JobKernelState } };

export class JobKernelStates {
  private _offer: Offer | null = null;
  private _states: Answer['kernels'] = {};
  private _watched = new Set<object>();
  private _timer = 0;
  private _asking: Promise<void> | null = null;
  private _changed = new Signal<this, void>(this);

  constructor() {
    document.addEventListener('visibilitychange', () => this._schedule(0));
  }

  /** Emitted after each answer. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Environments with such kernels, and the fields for their resources; null: none is offered. */
  get offer(): Offer | null {
    return this._offer?.items.length ? this._offer : null;
  }

  /** The last known state of the kernel; undefined if it is none of these. */
  state(id: string): JobKernelState | undefined {
    return this._states[id];
  }

  /** Requests what is offered, for a minute at most; returns how often it was requested. */
  async find(): Promise<number> {
    for (let tries = 1; tries <= TRIES; tries++) {
      try {
        await this._ask();
      } catch (error) {
        if (error instanceof PortalError && [403, 404].includes(error.status)) {
          return tries; // a session without such kernels, or a space that does not allow them
        }
      }
      if (this._offer) {
        return tries;
      }
      await new Promise(resolve => window.setTimeout(resolve, SOON));
    }
    return TRIES;
  }

  /** Requests the states while the page is visible, until the result is disposed of. */
  watch(): IDisposable {
    const watcher = {};
    this._watched.add(watcher);
    this._schedule(0);
    return new DisposableDelegate(() => this._watched.delete(watcher));
  }

  private _schedule(wait: number): void {
    window.clearTimeout(this._timer);
    if (this._watched.size && !document.hidden) {
      this._timer = window.setTimeout(() => void this._look(), wait);
    }
  }

  private async _look(): Promise<void> {
    await this._ask().catch(() => undefined); // the last states stay
    this._schedule(EVERY);
  }

  private _ask(): Promise<void> {
    this._asking ??= this._request().finally(() => (this._asking = null));
    return this._asking;
  }

  private async _request(): Promise<void> {
    const { items, fields, per_user, simulated, kernels } = await ask<Answer>('job-kernels');
    this._states = kernels;
    if (items && fields) {
      this._offer = { items, fields, per_user: per_user ?? 0, simulated: !!simulated };
    }
    this._changed.emit();
  }
}
