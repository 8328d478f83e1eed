/**
 * The launcher as soon as the page stands, and a starter notebook at a user's first session of an
 * environment (portal_session.home.starters). JupyterLab opens it when the workspace that it has just
 * loaded is saved again, half a second and two answers of the server later (4.6: `loadState` in
 * apputils-extension, for which `restoreBrowser` in filebrowser-extension waits).
 */
import { ILabShell, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';

import { ask } from './api';

const CREATE = 'launcher:create';
// With these in its address the page opens something else, or loads itself again.
const OTHER = ['reset', 'clone', 'file-browser-path'];

const plugin: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:launcher',
  description: 'Opens the launcher as soon as the page is ready, and the first starter notebook',
  autoStart: true,
  optional: [ILabShell],
  activate: (app, shell: ILabShell | null) => {
    const asked = new URLSearchParams(window.location.search);
    if (!shell || PageConfig.getOption('treePath') || OTHER.some(name => asked.has(name))) {
      return;
    }
    void app.restored.then(async () => {
      if (!shell.isEmpty('main') || !app.commands.hasCommand(CREATE)) {
        return;
      }
      void app.commands.execute(CREATE);
      const { path } = await ask<{ path: string }>('starters/first', {}).catch(() => ({ path: '' }));
      // Not over what the user has opened meanwhile.
      const others = Array.from(shell.widgets('main')).filter(({ id }) => !/^launcher/.test(id));
      if (path && !others.length) {
        await app.commands.execute('docmanager:open', { path });
      }
    });
  }
};

export default [plugin];
