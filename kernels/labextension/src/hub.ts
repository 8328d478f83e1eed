/**
 * The Hub's commands in the portal's words, and what a lost connection means, in the place of
 * JupyterLab's `hub-extension`: kernels/config/page_config.json switches its plugins off, and its
 * menu names these commands.
 */
import {
  IConnectionLost,
  JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';

import { ended, LAUNCH } from './ended';
import { situations } from './situations';

const AWAY = 'This session does not answer. Documents that are not saved stay open in this tab.';

const commands: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:hub',
  description: 'The portal’s Home, logging out, and launching the session again',
  autoStart: true,
  requires: [JupyterFrontEnd.IPaths],
  optional: [ICommandPalette],
  activate: (app, paths: JupyterFrontEnd.IPaths, palette: ICommandPalette | null) => {
    const { base, hubHost = '', hubPrefix, hubUser = '', hubServerName = '' } = paths.urls;
    if (!hubPrefix) {
      return;
    }
    const page = (...parts: string[]): string =>
      hubHost + URLExt.join(hubPrefix, ...parts.filter(part => part).map(encodeURIComponent));
    const open = (url: string) => () => window.open(url, '_blank');
    const all: [string, string, string, () => unknown][] = [
      ['hub:control-panel', 'Portal', 'Open the portal in a new browser tab', open(page('home'))],
      [
        'hub:logout',
        'Log Out',
        'Log out of the portal',
        () => window.location.assign(hubHost + URLExt.join(base, 'logout'))
      ],
      [
        LAUNCH,
        'Launch session again',
        'Open the launch page of this session in a new browser tab',
        open(page('spawn', hubUser, hubServerName))
      ]
    ];
    for (const [command, label, caption, execute] of all) {
      app.commands.addCommand(command, { label, caption, execute });
      palette?.addItem({ command, category: 'Portal' });
    }
  }
};

const connectionLost: JupyterFrontEndPlugin<IConnectionLost> = {
  id: '@data-scientist-portal/session:connection-lost',
  description: 'Says why the session has ended when its server does not answer',
  autoStart: true,
  provides: IConnectionLost,
  activate: app => {
    let warning = '';
    const dismiss = (): void => {
      if (warning) {
        Notification.dismiss(warning);
        warning = '';
      }
    };
    const look = async (): Promise<void> => {
      if ((await ended.find(app.commands)) === null) {
        warning ||= Notification.warning(AWAY, { autoClose: false });
      }
    };
    // JupyterLab itself notices a lost connection, but not a proxy that answers in the server's place.
    situations.changed.connect(() => (situations.failing ? void look() : dismiss()));
    ended.found.connect(dismiss);
    return look;
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  commands as JupyterFrontEndPlugin<unknown>,
  connectionLost
];

export default plugins;
