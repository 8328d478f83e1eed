/**
 * A warning when the kernel of a notebook lacks what the notebook imports, as the session's server
 * reads it (portal_session.notebooks.lacking_modules).
 */
import { ILabShell, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';

import { ask } from './api';
import { told } from './commands';
import { isKernelPanel, type KernelPanel } from './kernel-panel';

/** `kernel`: the name of a kernel that has what is missing; ''. */
interface Lacking {
  words: string;
  kernel: string;
}

class Warnings {
  private readonly _seen = new WeakSet<KernelPanel>();
  private readonly _said = new Set<string>();

  constructor(private readonly _documents: IDocumentManager) {}

  /** Looks at a notebook now, and whenever it gets another kernel. */
  follow(panel: KernelPanel): void {
    if (this._seen.has(panel)) {
      return;
    }
    this._seen.add(panel);
    const context = panel.sessionContext;
    const look = (): void => void this._look(panel).catch(() => undefined);
    context.kernelChanged.connect(look);
    void context.ready.then(look);
  }

  private async _look(panel: KernelPanel): Promise<void> {
    const { path } = this._documents.contextForWidget(panel) ?? {};
    const kernel = panel.sessionContext.session?.kernel?.name;
    const about = JSON.stringify([path, kernel]);
    if (!path?.endsWith('.ipynb') || !kernel || this._said.has(about)) {
      return;
    }
    this._said.add(about);
    const local = this._documents.services.contents.localPath(path);
    const query = new URLSearchParams({ path: local, kernel });
    const { words, kernel: name } = await ask<Lacking>(`lacking-modules?${query}`);
    if (words) {
      const choose = (): void => void told(() => panel.sessionContext.changeKernel({ name }));
      const actions = name ? [{ label: 'Use that kernel', callback: choose }] : [];
      Notification.warning(words, { autoClose: false, actions });
    }
  }
}

const lackingModules: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:lacking-modules',
  description: 'Warns of a kernel that lacks what the notebook imports',
  autoStart: true,
  requires: [ILabShell, IDocumentManager],
  activate: (app, shell: ILabShell, documents: IDocumentManager) => {
    const warnings = new Warnings(documents);
    const look = (): void => {
      for (const widget of shell.widgets('main')) {
        if (isKernelPanel(widget)) {
          warnings.follow(widget);
        }
      }
    };
    void app.restored.then(() => {
      look();
      shell.layoutModified.connect(look);
    });
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  lackingModules as JupyterFrontEndPlugin<unknown>
];

export default plugins;
