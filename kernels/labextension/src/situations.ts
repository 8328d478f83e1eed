/** Status of this session, polled from its server, and the readings of the last hour. */
import { type ISignal, Signal } from '@lumino/signaling';

import { ask, PortalError } from './api';

// As portal/models/situation.py, session/idle.py and session/move.py have them (tests/integration/kernels/test_lab_extension.py).
export interface ExtendOffer {
  allowed: boolean;
  minutes: number[];
  latest_end: number | null;
  reason: string;
}

export interface GpuNow {
  node: string;
  index: number;
  type: string;
  utilization: number | null;
  memory_used: number | null;
  memory_total: number | null;
  source: string;
}

export interface Message {
  id: number;
  text: string;
  level: string;
  ends_at: number;
}

export interface IdleState {
  mode: string;
  idle_since: number | null;
  warned: boolean;
  stops_at: number | null;
  save_at: number | null;
  snoozed_until: number | null;
  exempt: string;
  unknown: string;
  limit: number | null;
  snooze: number;
  snoozes_left: number;
}

export interface Move {
  state: string;
  options: { [name: string]: unknown };
  job_id: string;
  words: string;
  asked_at: number;
  expected_start: number | null;
  position: number | null;
}

export interface Situation {
  now: number;
  taken_at: number;
  error: string;
  session_id: string;
  job_id: string;
  environment: string;
  environment_title: string;
  node: string;
  ends_at: number | null;
  warn_minutes: number[];
  cpus: number;
  memory: number | null;
  gpu_type: string;
  gpus: GpuNow[];
  simulated: boolean;
  extend: ExtendOffer;
  hint: string;
  announcements: Message[];
  idle: IdleState;
  move: Move | null;
  links: { [name: string]: string };
}

/** Module that reads further fields of the situation, which it declares. */
export interface Part {
  /** Whether its fields have the expected shape. */
  sound(situation: Situation): boolean;
  /** Most seconds between two requests, visible or hidden; null: as usual. */
  wait(situation: Situation): number | null;
}

export const parts: Part[] = [];

/** A reading of NVML; `index` counts from 0. MiB. */
export interface LocalGpu {
  index: number;
  utilization: number | null;
  memory_used: number | null;
  memory_total: number | null;
}

interface Answer {
  situation: Situation | null;
  at: number | null;
  age: number | null;
  error: string;
  failing: number | null;
  guest: string;
  local: { gpus: LocalGpu[]; memory_used: number | null; memory_limit: number | null };
}

/** Readings at one time; null is unknown. Percent and MiB. `time`: seconds of the page's clock. */
export interface Reading {
  time: number;
  gpus: LocalGpu[];
  simulated: boolean;
  busy: number | null;
  gpuMemory: number | null;
  gpuMemoryTotal: number | null;
  memory: number | null;
  memoryLimit: number | null;
}

const VISIBLE = 10; // seconds between two requests
const HIDDEN = 60;
const LONGEST = 120; // maximum while the server does not answer
const KEPT = 3600;
const STALE = 90; // older readings of the portal are not current

/** Seconds of a monotonic clock. */
export function seconds(): number {
  return performance.now() / 1000;
}

export class Situations {
  private _answer: Answer | null = null;
  private _received = 0;
  private _problem = '';
  private _failing = 0;
  private _timer = 0;
  private _asking: Promise<void> | null = null;
  private _history: Reading[] = [];
  private _changed = new Signal<this, void>(this);

  /** Emitted after each answer and each failed request. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The portal's last status of this session. */
  get situation(): Situation | null {
    return this._answer?.situation ?? null;
  }

  /** The user of this page if it is not the session's owner; else "". */
  get guest(): string {
    return this._answer?.guest ?? '';
  }

  /** The address of a page about the session; null if it is not known, or of no page. */
  link(name: string): string | null {
    const to = this.situation?.links[name];
    try {
      const url = new URL(to ?? '', window.location.href);
      return to && /^https?:$/.test(url.protocol) ? url.href : null;
    } catch {
      return null;
    }
  }

  /** The readings of the last hour, oldest first. */
  get history(): readonly Reading[] {
    return this._history;
  }

  get reading(): Reading | null {
    return this._history.length ? this._history[this._history.length - 1] : null;
  }

  /** The portal's time now, in Unix seconds, independent of the browser's clock. */
  get now(): number | null {
    const { situation, age } = this._answer ?? {};
    return situation ? situation.now + (age ?? 0) + seconds() - this._received : null;
  }

  /** Seconds until the session's end; null: unknown. */
  get left(): number | null {
    const ends = this.situation?.ends_at ?? null;
    return ends === null || this.now === null ? null : ends - this.now;
  }

  /** Whether the last request to the session's server has failed. */
  get failing(): boolean {
    return !!this._problem;
  }

  /** Why the data may be old, as a sentence, and for how many seconds. */
  get problem(): { words: string; since: number } | null {
    if (this._problem) {
      return { words: this._problem, since: seconds() - this._failing };
    }
    const { error, failing, situation } = this._answer ?? {};
    if (error) {
      return { words: error, since: (failing ?? 0) + seconds() - this._received };
    }
    // The portal answers, but Slurm does not.
    return situation?.error
      ? { words: situation.error, since: Math.max(0, situation.now - situation.taken_at) }
      : null;
  }

  /** Request the status now and then periodically. A second call requests it at once. */
  start(): void {
    document.removeEventListener('visibilitychange', this._look);
    document.addEventListener('visibilitychange', this._look);
    void this.refresh();
  }

  stop(): void {
    document.removeEventListener('visibilitychange', this._look);
    window.clearTimeout(this._timer);
  }

  /** Request the status now. Never fails: `problem` has the error. */
  async refresh(): Promise<void> {
    window.clearTimeout(this._timer);
    this._asking ??= this._ask().finally(() => (this._asking = null));
    await this._asking;
  }

  private _look = (): void => {
    if (!document.hidden) {
      void this.refresh();
    }
  };

  private async _ask(): Promise<void> {
    let wait = document.hidden ? HIDDEN : VISIBLE;
    try {
      const answer = await ask<Answer | null>('situation');
      if (!answer || !sound(answer)) {
        throw new PortalError('The answer of this session’s server cannot be read.', 200);
      }
      this._answer = answer;
      const { situation } = answer;
      if (situation) {
        wait = Math.min(wait, ...parts.map(part => part.wait(situation) ?? wait));
      }
      this._received = seconds();
      this._problem = '';
      this._remember(this._answer);
    } catch (error) {
      if (error instanceof PortalError && error.status === 404) {
        return this.stop(); // a server without the portal's part
      }
      this._failing = this._problem ? this._failing : seconds();
      this._problem = error instanceof Error ? error.message : String(error);
      wait = Math.min(LONGEST, Math.max(wait, 2 * (seconds() - this._failing)));
    }
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => void this.refresh(), wait * 1000);
    this._changed.emit();
  }

  private _remember({ situation, age, local }: Answer): void {
    const told = situation && (age ?? 0) < STALE ? situation.gpus : [];
    // NVML's readings are newer, but cover only this node.
    const own = local.gpus.length > 0 && local.gpus.length >= (situation?.gpus.length ?? 0);
    const gpus = own ? local.gpus : told;
    const now = seconds();
    this._history.push({
      time: now,
      gpus,
      simulated: !own && !!situation?.simulated,
      busy: mean(gpus.map(gpu => gpu.utilization)),
      gpuMemory: sum(gpus.map(gpu => gpu.memory_used)),
      gpuMemoryTotal: sum(gpus.map(gpu => gpu.memory_total)),
      memory: local.memory_used,
      memoryLimit: local.memory_limit ?? situation?.memory ?? null
    });
    const old = this._history.findIndex(reading => reading.time >= now - KEPT);
    this._history.splice(0, old);
  }
}

/** Whether the answer has the expected shape. */
function sound({ situation, local }: Answer): boolean {
  const lists = situation && [situation.gpus, situation.announcements, situation.warn_minutes];
  return (
    Array.isArray(local?.gpus) &&
    (situation === null ||
      (typeof situation?.now === 'number' &&
        !!situation.extend &&
        !!situation.idle &&
        !!lists?.every(Array.isArray) &&
        parts.every(part => part.sound(situation))))
  );
}

/** Mean of the known values; null if there are none. */
function mean(values: (number | null)[]): number | null {
  const known = values.filter(value => value !== null);
  return known.length ? known.reduce((total, value) => total + value, 0) / known.length : null;
}

/** Sum; null if a value is unknown. */
function sum(values: (number | null)[]): number | null {
  return values.length
    ? values.reduce((total, value) => (total === null || value === null ? null : total + value))
    : null;
}

/** The instance of this page. */
export const situations = new Situations();
