/**
 * The panel of uploads, and its command (portal_session.uploads); the download of a folder
 * (portal_session.downloads).
 */
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { LabIcon } from '@jupyterlab/ui-components';

import { ask } from './api';
import { told } from './commands';
import { element } from './elements';
import { SidePanel } from './side-panel';

const PANEL = 'portal-uploads-panel';
const SHOW = 'portal:show-uploads';
const DOWNLOAD = 'portal:download-folder';

const icon = new LabIcon({
  name: '@data-scientist-portal/session:uploads',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
    '<path class="jp-icon3" fill="#616161" d="M11 16V7.8L7.4 11.4 6 10l6-6 6 6-1.4 1.4L13 7.8V16zM4 18h16v2H4z"/></svg>'
});

/** An unfinished upload, as portal_session/uploads/store.py has it; sizes in bytes. */
export interface Unfinished {
  id: string;
  folder: string;
  name: string;
  length: number;
  modified: string;
  offset: number;
}

/** Downloads a folder, unless the server refuses it with a sentence. */
async function download(folder: string): Promise<void> {
  const query = `download?folder=${encodeURIComponent(folder)}`;
  await ask<unknown>(`${query}&check=yes`);
  const link = element('a');
  link.href = `${URLExt.join(PageConfig.getBaseUrl(), 'portal')}/${query}`;
  link.download = '';
  link.click();
}

const uploads: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:uploads',
  description: 'Uploads large files, and goes on where the network has cut them',
  autoStart: true,
  optional: [ICommandPalette, ILayoutRestorer, IFileBrowserFactory],
  activate: (
    app: JupyterFrontEnd,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    browsers: IFileBrowserFactory | null
  ) => {
    const folder = (): string => {
      const path = browsers?.tracker.currentWidget?.model.path ?? '';
      return app.serviceManager.contents.localPath(path);
    };
    const selected = (): string => {
      const items = Array.from(browsers?.tracker.currentWidget?.selectedItems() ?? []);
      const one = items.length === 1 && items[0].type === 'directory' ? items[0].path : '';
      return app.serviceManager.contents.localPath(one);
    };
    const caption = 'Uploads: large files, which go on where they were cut';
    const panel = new SidePanel({ id: PANEL, icon, caption, name: 'Uploads' }, async place => {
      const { UploadsPanel } = await import('./uploads-panel');
      new UploadsPanel(place.node, folder, () => place.isVisible);
    });
    restorer?.add(panel, PANEL);
    let allowed = false;
    app.commands.addCommand(SHOW, {
      label: args => (args.isPalette ? 'Portal: Upload large files' : 'Upload large files'),
      icon,
      isVisible: () => allowed,
      isEnabled: () => allowed,
      execute: () => app.shell.activateById(PANEL)
    });
    palette?.addItem({ command: SHOW, category: 'Portal', args: { isPalette: true } });
    app.commands.addCommand(DOWNLOAD, {
      label: 'Download folder',
      caption: 'Download the folder as a tar file',
      isVisible: () => allowed && !!selected(),
      isEnabled: () => allowed && !!selected(),
      execute: () => told(() => download(selected()))
    });
    const folders = '.jp-DirListing-item[data-isdir="true"]';
    app.contextMenu.addItem({ command: DOWNLOAD, selector: folders, rank: 9 });
    app.contextMenu.addItem({ command: SHOW, selector: '.jp-DirListing-content', rank: 60 });
    void app.restored.then(async () => {
      try {
        await ask<unknown>('uploads');
      } catch {
        return; // such as a guest's
      }
      allowed = true;
      app.shell.add(panel, 'left', { rank: 510 });
      app.commands.notifyCommandChanged();
    });
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [uploads as JupyterFrontEndPlugin<unknown>];

export default plugins;
