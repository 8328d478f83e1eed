/** What a person can do about this session: extend it, save all, say that it is needed. */
import { type ICommandPalette, InputDialog, Notification } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';

import { ask } from './api';
import type { Situations } from './situations';
import { clock, duration } from './words';

const CATEGORY = 'Portal';
const SAVE_ALL = 'docmanager:save-all';

/** Commands for which the panel has a button; modules add theirs when they are loaded. */
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
      ['portal:show-panel', 'Portal: Show session panel', () => this.showPanel()]
    ];
    for (const [id, label, execute] of all) {
      this.registry.addCommand(id, { label, execute });
      palette?.addItem({ command: id, category: CATEGORY });
    }
  }

  /** By `minutes`; without them the person is asked. It says what came of it. */
  async extend(minutes?: number): Promise<void> {
    const situation = this._situations.situation;
    const offer = situation?.extend;
    if (!situation || !offer) {
      Notification.error('Whether this session can be extended is not known: the portal is away.');
      return;
    }
    if (!offer.allowed || !offer.minutes.length) {
      Notification.info(offer.reason || 'This session cannot be extended.');
      return;
    }
    const chosen = minutes ?? (await this._choose(offer.minutes));
    if (chosen === null) {
      return;
    }
    await told(async () => {
      const body = { minutes: chosen, ends_at: situation.ends_at };
      const done = await ask<{ ends_at: number }>('extend', body);
      const ahead = done.ends_at - (this._situations.now ?? done.ends_at);
      Notification.success(`This session ends at ${clock(ahead)} now.`, { autoClose: 8000 });
    });
    await this._situations.refresh();
  }

  /** `quietly`: nobody asked for it, so that nothing is said where nothing is open. */
  async saveAll(quietly = false): Promise<void> {
    if (this.registry.isEnabled(SAVE_ALL)) {
      await told(() => this.registry.execute(SAVE_ALL));
    } else if (!quietly) {
      Notification.info('There is nothing to save: no document is open.', { autoClose: 5000 });
    }
  }

  /** "I still need it": the watch for idle GPUs begins anew. */
  async snooze(): Promise<void> {
    await told(() => ask('snooze', {}));
    await this._situations.refresh();
  }

  /** Into the home, never over a file that is there. */
  async copyStarters(): Promise<void> {
    await told(async () => {
      const done = await ask<{ folder: string; copied: string[] }>('starters', {});
      const number = done.copied.length;
      const said = number
        ? `${number} starter ${number === 1 ? 'notebook is' : 'notebooks are'} now in ~/${done.folder}.`
        : `The starter notebooks are in ~/${done.folder} already.`;
      Notification.success(said, { autoClose: 8000 });
    });
  }

  private async _choose(minutes: number[]): Promise<number | null> {
    const items = minutes.map(one => duration(one * 60));
    const { value } = await InputDialog.getItem({
      title: 'Extend session',
      label: 'By',
      items,
      okLabel: 'Extend'
    });
    return value === null ? null : minutes[items.indexOf(value)];
  }
}

/** Runs it; what goes wrong is a notification. */
export async function told(run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (error) {
    Notification.error(error instanceof Error ? error.message : String(error), { autoClose: false });
  }
}
