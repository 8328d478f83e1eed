/** Commands for this session: extend, save all, snooze, stop, copy starter notebooks. */
import {
  Dialog,
  type ICommandPalette,
  InputDialog,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';

import { ask } from './api';
import { ended } from './ended';
import type { Situations } from './situations';
import { clock, duration } from './words';

const CATEGORY = 'Portal';
const SAVE_ALL = 'docmanager:save-all';

/** Commands with a button in the panel; modules add theirs when they are loaded. */
export const panelCommands: string[] = [];

export class Commands {
  constructor(
    readonly registry: CommandRegistry,
    private readonly _situations: Situations,
    readonly showPanel: () => void
  ) {}

  add(palette: ICommandPalette | null): void {
    const all: [string, string, () => unknown][] = [
      ['portal:extend', 'Portal: Extend session', () => this.extend()],
      ['portal:starters', 'Portal: Copy starter notebooks', () => this.copyStarters()],
      ['portal:save-all', 'Portal: Save all', () => this.saveAll()],
      ['portal:stop', 'Portal: Stop session', () => this.stop()],
      ['portal:show-panel', 'Portal: Show session panel', () => this.showPanel()]
    ];
    for (const [id, label, execute] of all) {
      this.registry.addCommand(id, { label, execute });
      palette?.addItem({ command: id, category: CATEGORY });
    }
  }

  /** Extend by `minutes`, or ask the user. Notifies about the result. */
  async extend(minutes?: number): Promise<void> {
    const situation = this._situations.situation;
    const offer = situation?.extend;
    if (!situation || !offer) {
      Notification.error('This session cannot be extended now: the portal does not answer.');
      return;
    }
    if (!offer.allowed || !offer.minutes.length) {
      Notification.info(offer.reason || 'This session cannot be extended.');
      return;
    }
    const chosen = minutes ?? (await this._choose(offer.minutes, this._situations.left));
    if (chosen === null) {
      return;
    }
    await told(async () => {
      const body = { minutes: chosen, ends_at: situation.ends_at };
      const done = await ask<{ ends_at: number }>('extend', body);
      const ahead = done.ends_at - (this._situations.now ?? done.ends_at);
      Notification.success(`This session now ends at ${clock(ahead)}.`, { autoClose: 8000 });
    });
    await this._situations.refresh();
  }

  /** `quietly`: without a notification if no document is open. */
  async saveAll(quietly = false): Promise<void> {
    if (this.registry.isEnabled(SAVE_ALL)) {
      await told(() => this.registry.execute(SAVE_ALL));
    } else if (!quietly) {
      Notification.info('There is nothing to save: no document is open.', { autoClose: 5000 });
    }
  }

  /** Postpone the stop for idle GPUs. */
  async snooze(): Promise<void> {
    await told(() => ask('snooze', {}));
    await this._situations.refresh();
  }

  /** Stop the session, if the user confirms it. Documents are saved before. */
  async stop(): Promise<void> {
    const { button } = await showDialog({
      title: 'Stop this session?',
      body: 'Open documents are saved. Kernels end, and data in memory is lost.',
      buttons: [
        Dialog.cancelButton({ label: 'Keep running' }),
        Dialog.warnButton({ label: 'Stop' })
      ]
    });
    if (!button.accept) {
      return;
    }
    await this.saveAll(true);
    const progress = Notification.emit('The session is being stopped.', 'in-progress');
    await told(async () => {
      const error: unknown = await ask('stop', {}).then(
        () => null,
        reason => reason
      );
      // The server may end before it has passed the answer on.
      if (!(await ended.find(this.registry)) && error) {
        throw error;
      }
    });
    Notification.dismiss(progress);
  }

  /** Copy to the home directory; existing files are never overwritten. */
  async copyStarters(): Promise<void> {
    await told(async () => {
      const done = await ask<{ folder: string; copied: string[] }>('starters', {});
      const number = done.copied.length;
      const said = number
        ? `${number} starter ${number === 1 ? 'notebook' : 'notebooks'} copied to ~/${done.folder}.`
        : `The starter notebooks are already in ~/${done.folder}.`;
      Notification.success(said, { autoClose: 8000 });
    });
  }

  /** `left`: seconds until the end now; null: unknown. */
  private async _choose(minutes: number[], left: number | null): Promise<number | null> {
    const items = minutes.map(choice => {
      const end = left === null ? '' : `, until ${clock(left + choice * 60)}`;
      return duration(choice * 60) + end;
    });
    const { value } = await InputDialog.getItem({
      title: 'Extend session',
      label: 'Extend by',
      items,
      okLabel: 'Extend'
    });
    return value === null ? null : minutes[items.indexOf(value)];
  }
}

/** Runs `run`; an error becomes a notification. */
export async function told(run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (error) {
    Notification.error(error instanceof Error ? error.message : String(error), { autoClose: false });
  }
}
