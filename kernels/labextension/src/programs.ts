/** Programs of the environment beside JupyterLab, each in a browser tab of its own. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { ILauncher } from '@jupyterlab/launcher';
import { LabIcon } from '@jupyterlab/ui-components';

/** A program as the session's server describes it (portal_session/page.py). */
interface IProgram {
  name: string;
  title: string;
}

const icon = new LabIcon({
  name: 'portal:program',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
    '<path class="jp-icon3" fill="#616161" d="M19 19H5V5h7V3H3v18h18v-9h-2zM14 3v2h3.6l-9.8 9.8 1.4 ' +
    '1.4L19 6.4V10h2V3z"/></svg>'
});

const programs: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:programs',
  description: 'Opens programs of the environment',
  autoStart: true,
  optional: [ILauncher, ICommandPalette],
  activate: (app, launcher: ILauncher | null, palette: ICommandPalette | null) => {
    const offered = JSON.parse(PageConfig.getOption('portalPrograms') || '[]') as IProgram[];
    offered.forEach(({ name, title }, rank) => {
      const command = `portal-programs:${name}`;
      app.commands.addCommand(command, {
        label: args => (args.isPalette ? `Open ${title}` : title),
        caption: `Open ${title} of this session in a new tab`,
        icon: args => (args.isPalette ? undefined : icon),
        execute: () => {
          const url = URLExt.join(PageConfig.getBaseUrl(), 'portal/programs', name, '/');
          window.open(url, '_blank', 'noopener');
        }
      });
      launcher?.add({ command, category: 'Other', rank: 2 + rank });
      palette?.addItem({ command, category: 'Portal', args: { isPalette: true } });
    });
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [programs];

export default plugins;
