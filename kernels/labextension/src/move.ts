/**
 * Change of a running session's resources: the command, the progress of a move, and its end.
 *
 * At the end of a move the session's server asks open pages to save (portal_session.handover). When
 * another server answers at the same address, the page reloads, but never with unsaved work.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';

import { ask, PortalError } from './api';
import { panelCommands } from './commands';
import { type Move, situations } from './situations';

const COMMAND = 'portal:change-resources';
const LIVE = ['queued', 'starting', 'ready', 'switching'];
const CANCELLABLE = ['queued', 'starting'];
const SLOW = 10000; // milliseconds between two requests; the server forgets a page after 25 s
const FAST = 2000; // during a move
const SOON = 500; // while the old server waits, and until the new one answers
const SAVE = 8000; // milliseconds for each document: saving may open a dialog about a newer file
const LAYOUT = 1500; // until Lab has written its workspace (application-extension: 750 ms)
const FOLLOWED = 'portal:move-followed'; // in the tab's storage: the move that this page follows

/** The server's answer to a page. */
interface Handover {
  job_id: string;
  saving: boolean;
}

type Context = NonNullable<ReturnType<IDocumentManager['contextForWidget']>>;

/** ID of this page; `crypto.randomUUID` does not exist on plain HTTP. */
const page = Array.from(crypto.getRandomValues(new Uint32Array(4)), part => part.toString(16)).join('-');

/** The end of a move, for this page. */
class Handing {
  private _job = '';
  private _saved = false;
  private _unsaved: string[] = []; // documents that could not be saved when the server requested it
  private _leaving = false;
  private _timer = 0;
  private _cover: HTMLElement | null = null;

  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _documents: IDocumentManager
  ) {}

  /** Request the state now, and then periodically. */
  async look(): Promise<void> {
    window.clearTimeout(this._timer);
    try {
      await this._follow(await ask<Handover>('handover/page', { page }));
    } catch (error) {
      const status = error instanceof PortalError ? error.status : 0;
      if (status === 404) {
        return; // a server without this part
      }
      if ((status === 401 || status === 403) && this._cover) {
        // The new server does not know this browser yet: reloading the page logs it in. It may have
        // started before this page had saved everything.
        const changed = this._changed().map(context => context.path);
        const unsaved = this._unsaved.filter(path => changed.includes(path));
        if (!unsaved.length) {
          return this._reload();
        }
        this._uncover();
        this._warn(unsaved, 'Copy what you need, then reload this page.');
      }
    }
    if (this._leaving) {
      return;
    }
    const live = LIVE.includes(situations.situation?.move?.state ?? '');
    const wait = this._cover ? SOON : live ? FAST : SLOW;
    this._timer = window.setTimeout(() => void this.look(), wait);
    if (live) {
      void situations.refresh();
    }
  }

  private async _follow(answer: Handover): Promise<void> {
    this._job ||= answer.job_id;
    if (answer.job_id !== this._job) {
      const unsaved = await this._saveAll();
      if (!unsaved.length) {
        return this._reload();
      }
      this._uncover();
      this._job = answer.job_id;
      this._warn(unsaved, 'Save, then reload this page.');
    } else if (answer.saving && !this._saved) {
      this._hide();
      this._unsaved = await this._saveAll();
      await new Promise(resolve => window.setTimeout(resolve, LAYOUT));
      await ask<Handover>('handover/page', { page, saved: true });
      this._saved = true;
    } else if (!answer.saving) {
      this._saved = false;
      this._uncover();
    }
  }

  private _warn(unsaved: string[], what: string): void {
    const words = `The session has new resources. Not saved: ${unsaved.join(', ')}. ${what}`;
    Notification.warning(words, { autoClose: false });
  }

  /** Documents with unsaved changes. */
  private _changed(): Context[] {
    const contexts = new Set<Context>();
    for (const widget of this._app.shell.widgets('main')) {
      const context = this._documents.contextForWidget(widget);
      if (context?.model.dirty) {
        contexts.add(context);
      }
    }
    return Array.from(contexts);
  }

  /** Save changed documents; return the paths of those that could not be saved. */
  private async _saveAll(): Promise<string[]> {
    const contexts = this._changed();
    await Promise.all(
      contexts.map(context =>
        Promise.race([
          context.save().catch(() => undefined),
          new Promise(resolve => window.setTimeout(resolve, SAVE))
        ])
      )
    );
    return contexts.filter(context => context.model.dirty).map(context => context.path);
  }

  /** Block input that would be lost. */
  private _hide(): void {
    if (this._cover) {
      return;
    }
    this._app.shell.node.toggleAttribute('inert', true);
    const words = document.createElement('p');
    words.textContent = 'Saving all documents: this session is moving to its new resources…';
    this._cover = document.createElement('div');
    this._cover.className = 'portal-Cover';
    this._cover.setAttribute('role', 'alert');
    this._cover.append(words);
    document.body.append(this._cover);
  }

  private _uncover(): void {
    this._cover?.remove();
    this._cover = null;
    this._app.shell.node.toggleAttribute('inert', false);
  }

  private _reload(): void {
    this._leaving = true;
    window.location.reload();
  }
}

/** The notification about a move's progress and result. */
class Progress {
  private _id = '';
  private _shown = '';

  look(move: Move | null): void {
    const followed = window.sessionStorage.getItem(FOLLOWED);
    if (!move || (!LIVE.includes(move.state) && followed !== String(move.asked_at))) {
      return;
    }
    const shown = `${move.state} ${move.words}`;
    if (shown === this._shown) {
      return;
    }
    this._shown = shown;
    if (LIVE.includes(move.state)) {
      window.sessionStorage.setItem(FOLLOWED, String(move.asked_at));
      const actions = CANCELLABLE.includes(move.state)
        ? [{ label: 'Cancel change', callback: () => void cancelMove() }]
        : [];
      this._tell(move.words, 'in-progress', actions);
    } else {
      window.sessionStorage.removeItem(FOLLOWED);
      const type = { done: 'success', cancelled: 'info' }[move.state] ?? 'error';
      this._tell(move.words, type as Notification.TypeOptions, []);
    }
  }

  private _tell(
    message: string,
    type: Notification.TypeOptions,
    actions: Notification.IAction[]
  ): void {
    const options = { actions, autoClose: type === 'success' ? 10000 : (false as const) };
    if (this._id && Notification.manager.has(this._id)) {
      Notification.update({ id: this._id, message, type, ...options });
    } else {
      this._id = Notification.emit(message, type, options);
    }
  }
}

async function cancelMove(): Promise<void> {
  try {
    await ask<Move>('move', undefined, 'DELETE');
  } catch (error) {
    Notification.error(error instanceof Error ? error.message : String(error), { autoClose: false });
  }
  await situations.refresh();
}

const move: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:move',
  description: 'Changes the resources of the running session',
  autoStart: true,
  requires: [IDocumentManager],
  optional: [ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    documents: IDocumentManager,
    palette: ICommandPalette | null
  ) => {
    const handing = new Handing(app, documents);
    const progress = new Progress();
    app.commands.addCommand(COMMAND, {
      label: 'Portal: Change resources…',
      execute: async () => {
        const { changeResources } = await import('./resources');
        if (await changeResources()) {
          await situations.refresh();
          await handing.look();
        }
      }
    });
    palette?.addItem({ command: COMMAND, category: 'Portal' });
    panelCommands.push(COMMAND);
    situations.changed.connect(() => progress.look(situations.situation?.move ?? null));
    void app.restored.then(() => handing.look());
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [move as JupyterFrontEndPlugin<unknown>];

export default plugins;
