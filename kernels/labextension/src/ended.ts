/** The dialog of a page whose session has ended: who stopped it and when, or why it ended. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import type { CommandRegistry } from '@lumino/commands';

import { seconds, situations } from './situations';

export const LAUNCH = 'hub:restart'; // JupyterLab's name
const PAUSE = 1000; // milliseconds between two requests while the session stops
const PATIENCE = 60; // seconds: Slurm gives a job 30 to end
const AWAY =
  'This session does not answer. Documents that are not saved stay open in this tab.';

/** What is at the session's address. `reason`: why it ended, ''; `stopping`: that may soon be said. */
interface HubPage {
  reason: string;
  stopping: boolean;
  runs: boolean;
}

/** Returns null if there is no answer, or none that this page's origin may read. */
async function hubPage(): Promise<HubPage | null> {
  try {
    const url = URLExt.join(PageConfig.getBaseUrl(), 'lab');
    const response = await fetch(url, { headers: { Accept: 'text/html' }, cache: 'no-store' });
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    const stopping = response.url.includes('/spawn-pending/') || response.status >= 500;
    // templates/not_running.html
    const reason = page.getElementById('session-reason')?.textContent?.trim() ?? '';
    return { reason, stopping, runs: response.ok && !stopping };
  } catch {
    return null;
  }
}

export class Ended {
  private _shown = false; // the session has not answered since
  private _finding: Promise<boolean> | null = null;
  private _away = '';

  constructor() {
    situations.changed.connect(() => {
      if (!situations.problem) {
        this._shown = false;
        this._notify('');
      }
    });
  }

  /** Shows that the session has ended; returns whether it has. `sure`: the Hub has said so. */
  find(commands: CommandRegistry, sure: boolean): Promise<boolean> {
    this._finding ??= this._find(commands, sure).finally(() => (this._finding = null));
    return this._finding;
  }

  private async _find(commands: CommandRegistry, sure: boolean): Promise<boolean> {
    if (this._shown) {
      return true;
    }
    const latest = seconds() + PATIENCE;
    let page = await hubPage();
    while (page?.stopping && !page.reason && seconds() < latest) {
      await new Promise(resolve => window.setTimeout(resolve, PAUSE));
      page = await hubPage();
    }
    if (!page?.reason && (!sure || page?.runs)) {
      this._notify(page ? '' : AWAY);
      return false;
    }
    this._shown = true;
    this._notify('');
    void this._show(commands, page?.reason || 'It can be launched again.');
    return true;
  }

  private async _show(commands: CommandRegistry, reason: string): Promise<void> {
    const why = situations.link('session');
    const [more, launch] = ['Why', 'Launch again'];
    const { button } = await showDialog({
      title: 'This session has ended',
      body: reason,
      buttons: [
        Dialog.cancelButton({ label: 'Dismiss' }),
        ...(why ? [Dialog.createButton({ label: more })] : []),
        Dialog.okButton({ label: launch })
      ]
    });
    // In new tabs: documents may not be saved here.
    if (why && button.label === more) {
      window.open(why, '_blank', 'noopener');
    } else if (button.label === launch) {
      void commands.execute(LAUNCH);
    }
  }

  /** Warns once with these words; '' closes the warning. */
  private _notify(words: string): void {
    if (!words && this._away) {
      Notification.dismiss(this._away);
      this._away = '';
    } else if (words) {
      this._away ||= Notification.warning(words, { autoClose: false });
    }
  }
}

/** The instance of this page. */
export const ended = new Ended();
