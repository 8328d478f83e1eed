/** TensorBoard from the launcher, the palette and a folder's context menu, in its own tab. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import {
  ICommandPalette,
  MainAreaWidget,
  showErrorMessage,
  WidgetTracker
} from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { FileDialog, IDefaultFileBrowser, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IFrame, LabIcon } from '@jupyterlab/ui-components';

import { ask, PortalError } from './api';

/** A TensorBoard as the session's server describes it (portal_session.tensorboard.running). */
interface IBoard {
  number: number;
  name: string;
  folders: string[];
  state: 'starting' | 'reading' | 'ready' | 'ended';
}

type Tab = MainAreaWidget<IFrame>;

const OPEN = 'portal-tensorboard:open';
const OPEN_SELECTED = 'portal-tensorboard:open-selected';
const LIST = 'portal-tensorboard:list';
const SHOW = 'portal-tensorboard:show';
const ITSELF = /^portal-tensorboard-(\d+)$/;

const icon = new LabIcon({
  name: 'portal:tensorboard',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">' +
    '<path class="jp-icon3" fill="none" stroke="#616161" stroke-width="2" ' +
    'd="M3 3v16h16M6 15l4-5 3 3 5-8"/></svg>'
});

/** The tab of TensorBoard `number`; shows a waiting page until TensorBoard answers. */
function makeTab(number: number, name: string): Tab {
  const frame = new IFrame({
    // The pages come from the session's own server and need these rights.
    sandbox: [
      'allow-same-origin',
      'allow-scripts',
      'allow-forms',
      'allow-modals',
      'allow-popups',
      'allow-downloads'
    ]
  });
  frame.url = URLExt.join(PageConfig.getBaseUrl(), 'portal/tensorboard', String(number), '/');
  const tab = new MainAreaWidget({ content: frame });
  tab.id = `portal-tensorboard-${number}`;
  tab.title.label = name;
  tab.title.caption = `TensorBoard: ${name}`;
  tab.title.icon = icon;
  tab.title.closable = true;
  return tab;
}

function activate(
  app: JupyterFrontEnd,
  documents: IDocumentManager,
  browser: IDefaultFileBrowser | null,
  browsers: IFileBrowserFactory | null,
  launcher: ILauncher | null,
  palette: ICommandPalette | null,
  restorer: ILayoutRestorer | null
): void {
  const tabs = new WidgetTracker<Tab>({ namespace: 'portal-tensorboard' });

  const show = (number: number, name: string): void => {
    const id = `portal-tensorboard-${number}`;
    let tab = tabs.find(candidate => candidate.id === id);
    if (!tab) {
      tab = makeTab(number, name);
      void tabs.add(tab);
      app.shell.add(tab, 'main');
    }
    app.shell.activateById(id);
  };

  const open = async (folders: string[]): Promise<void> => {
    try {
      const board = await ask<IBoard>('tensorboard/api/running', { folders });
      show(board.number, board.name);
    } catch (error) {
      const words = error instanceof PortalError ? error.message : String(error);
      await showErrorMessage('TensorBoard', words);
    }
  };

  app.commands.addCommand(OPEN, {
    label: args => (args.isLauncher ? 'TensorBoard' : 'Open TensorBoard…'),
    caption: 'Show the logs of a folder in TensorBoard',
    icon,
    execute: async args => {
      if (Array.isArray(args.folders)) {
        return open(args.folders.map(String));
      }
      const answer = await FileDialog.getExistingDirectory({
        manager: documents,
        title: 'Open a folder with logs in TensorBoard',
        defaultPath: browser?.model.path
      });
      const chosen = answer.button.accept ? (answer.value ?? []) : [];
      if (chosen.length) {
        await open(chosen.map(folder => local(documents, folder.path)));
      }
    }
  });
  app.commands.addCommand(OPEN_SELECTED, {
    label: 'Open in TensorBoard',
    icon,
    execute: async () => {
      const selected = Array.from(browsers?.tracker.currentWidget?.selectedItems() ?? []);
      const folders = selected.filter(item => item.type === 'directory');
      if (folders.length) {
        await open(folders.map(folder => local(documents, folder.path)));
      }
    }
  });
  app.commands.addCommand(LIST, {
    label: 'All TensorBoards of this session',
    icon,
    execute: () => {
      const url = URLExt.join(PageConfig.getBaseUrl(), 'portal/tensorboard/');
      window.open(url, '_blank', 'noopener');
    }
  });
  app.commands.addCommand(SHOW, {
    execute: args => show(Number(args.number), String(args.name))
  });
  app.contextMenu.addItem({
    command: OPEN_SELECTED,
    selector: '.jp-DirListing-item[data-isdir="true"]',
    rank: 3
  });

  launcher?.add({ command: OPEN, category: 'Other', rank: 1, args: { isLauncher: true } });
  palette?.addItem({ command: OPEN, category: 'TensorBoard' });
  palette?.addItem({ command: LIST, category: 'TensorBoard' });
  if (restorer) {
    void restorer.restore(tabs, {
      command: SHOW,
      args: tab => ({ number: Number(ITSELF.exec(tab.id)?.[1]), name: tab.title.label }),
      name: tab => tab.id
    });
  }
}

/** A path of the contents service without the drive name, as the session's server expects it. */
function local(documents: IDocumentManager, path: string): string {
  return documents.services.contents.localPath(path) || '.';
}

const tensorboard: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:tensorboard',
  description: 'Opens logs in TensorBoard',
  autoStart: true,
  requires: [IDocumentManager],
  optional: [
    IDefaultFileBrowser,
    IFileBrowserFactory,
    ILauncher,
    ICommandPalette,
    ILayoutRestorer
  ],
  activate
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [tensorboard];

export default plugins;
