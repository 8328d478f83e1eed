/** The dialog of a page whose session has ended: who stopped it and when, or why it ended. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import type { CommandRegistry } from '@lumino/commands';
import { type ISignal, Signal } from '@lumino/signaling';

import { seconds, situations } from './situations';

export const LAUNCH = 'hub:restart'; // JupyterLab's name
const PAUSE = 1000; // milliseconds between two requests while the session stops
const PATIENCE = 60; // seconds: Slurm gives a job 30 to end

/** As the Hub says it (spawners/api/ended.py). `state`: "ended", "stopping", or "" for any other. */
interface Ending {
  state: string;
  words: string;
}

/** Returns null if the Hub does not answer, or the session is not known here. */
async function ending(): Promise<Ending | null> {
  const id = situations.situation?.session_id;
  const prefix = PageConfig.getOption('hubPrefix');
  if (!id || !prefix) {
    return null;
  }
  const names = ['hubUser', 'hubServerName'].map(name => PageConfig.getOption(name));
  const path = [...names, id].map(encodeURIComponent).join('/');
  try {
    const url = `${PageConfig.getOption('hubHost')}${URLExt.join(prefix, 'api/portal/ended')}/${path}`;
    const response = await fetch(url, { cache: 'no-store', credentials: 'omit' });
    return response.ok ? ((await response.json()) as Ending) : null;
  } catch {
    return null;
  }
}

export class Ended {
  private _shown = ''; // the session that was said to have ended
  private _finding: Promise<boolean | null> | null = null;
  private _found = new Signal<this, void>(this);

  /** Whether the session of this page has ended, and none has replaced it. */
  get over(): boolean {
    const id = situations.situation?.session_id;
    return situations.failing && !!id && this._shown === id;
  }

  /** Emitted once it is known that the session has ended. */
  get found(): ISignal<this, void> {
    return this._found;
  }

  /** Shows once that the session has ended; returns whether it has, null if the Hub is silent. */
  find(commands: CommandRegistry): Promise<boolean | null> {
    this._finding ??= this._find(commands).finally(() => (this._finding = null));
    return this._finding;
  }

  private async _find(commands: CommandRegistry): Promise<boolean | null> {
    const latest = seconds() + PATIENCE;
    let answer = await ending();
    while (answer?.state === 'stopping' && seconds() < latest) {
      await new Promise(resolve => window.setTimeout(resolve, PAUSE));
      answer = await ending();
    }
    const id = situations.situation?.session_id ?? '';
    if (answer?.state === 'ended' && this._shown !== id) {
      this._shown = id;
      this._found.emit();
      void this._show(commands, answer.words);
    }
    return answer && answer.state === 'ended';
  }

  private async _show(commands: CommandRegistry, words: string): Promise<void> {
    const why = situations.link('session');
    const [more, launch] = ['Why', 'Launch again'];
    const whyButton = Dialog.createButton({ label: more, accept: false });
    const own = [...(why ? [whyButton] : []), Dialog.okButton({ label: launch })];
    const { guest } = situations; // the words are the owner's
    const { button } = await showDialog({
      title: 'This session has ended',
      body: guest ? 'Only its owner can launch it again.' : words,
      buttons: [Dialog.cancelButton({ label: 'Dismiss' }), ...(guest ? [] : own)]
    });
    // In new tabs: documents may not be saved here.
    if (why && button.label === more) {
      window.open(why, '_blank', 'noopener');
    } else if (button.label === launch) {
      void commands.execute(LAUNCH);
    }
  }
}

/** The instance of this page. */
export const ended = new Ended();
