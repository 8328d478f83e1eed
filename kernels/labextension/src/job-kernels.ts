/**
 * Kernels in Slurm jobs of their own: the command that chooses one, and the item in the toolbars of
 * notebooks and consoles. JupyterLab itself lists the usual ones, which are ordinary kernelspecs.
 */
import {
  ILabShell,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, type ISessionContext } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { LabIcon } from '@jupyterlab/ui-components';
import type { Widget } from '@lumino/widgets';

import { told } from './commands';
import { JobKernelItem } from './job-kernel-item';
import { JobKernelStates } from './job-kernel-states';
import { isKernelPanel, type KernelPanel } from './kernel-panel';
import type { Options } from './resources-form';

const COMMAND = 'portal:job-kernel';
const NEW_NOTEBOOK = 'notebook:create-new';
const LABEL = 'Kernel with GPUs…';

const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
  '<path class="jp-icon3" fill="#616161" d="M7 7h10v10H7zM9 9v6h6V9zM8 2h2v3H8zm6 0h2v3h-2zM8 19h2v3H8zm6 ' +
  '0h2v3h-2zM2 8h3v2H2zm0 6h3v2H2zm17-6h3v2h-3zm0 6h3v2h-3zM5 5v14h14V5zm2 2h10v10H7z"/></svg>';
const icon = new LabIcon({ name: '@data-scientist-portal/session:job-kernel', svgstr: SVG });

class JobKernels {
  readonly states = new JobKernelStates();
  private readonly _seen = new WeakSet<Widget>();

  constructor(private readonly _app: JupyterFrontEnd) {}

  /** Adds the item to all panels with kernels, now and when one is opened. */
  follow(shell: ILabShell): void {
    const look = (): void => {
      for (const widget of shell.widgets('main')) {
        if (isKernelPanel(widget) && !this._seen.has(widget)) {
          this._seen.add(widget);
          this._addItem(widget);
        }
      }
    };
    look();
    shell.layoutModified.connect(look);
  }

  /** Asks for a kernel, and gives it to `context`, or to a new notebook in the folder `cwd`. */
  async choose(context: ISessionContext | null, cwd: string): Promise<unknown> {
    const { offer } = this.states;
    if (!offer) {
      return undefined;
    }
    const { chooseJobKernel } = await import('./job-kernel-dialog');
    const kernelName = await chooseJobKernel(offer, this._now(context));
    if (!kernelName) {
      return undefined;
    }
    await this._app.serviceManager.kernelspecs.refreshSpecs();
    if (context && !context.isDisposed) {
      return context.changeKernel({ name: kernelName });
    }
    return this._app.commands.execute(NEW_NOTEBOOK, { cwd, kernelName });
  }

  /** The kernel of `context`, or JupyterLab's default: what the dialog begins with. */
  private _now(context: ISessionContext | null): Options {
    const { specs } = this._app.serviceManager.kernelspecs;
    const kernel = context?.session?.kernel?.name ?? specs?.default ?? '';
    const request = specs?.kernelspecs[kernel]?.metadata?.portal_job_kernel;
    return { kernel, ...(request as Options | undefined) };
  }

  private _addItem(panel: KernelPanel): void {
    const context = panel.sessionContext;
    const choose = (): void => void told(() => this.choose(context, ''));
    const item = new JobKernelItem(context, this.states, choose);
    if (!panel.toolbar.insertBefore('kernelName', 'portalJobKernel', item)) {
      panel.toolbar.addItem('portalJobKernel', item);
    }
    panel.disposed.connect(() => item.dispose());
  }
}

function activate(
  app: JupyterFrontEnd,
  shell: ILabShell,
  launcher: ILauncher | null,
  menu: IMainMenu | null,
  palette: ICommandPalette | null
): void {
  const kernels = new JobKernels(app);
  let offered = false;
  app.commands.addCommand(COMMAND, {
    label: args => (args.isPalette ? `Portal: ${LABEL}` : LABEL),
    caption: 'Run a notebook on a kernel in a Slurm job of its own',
    icon: args => (args.isPalette ? undefined : icon),
    isEnabled: () => offered,
    execute: async args => {
      const current = shell.currentWidget;
      const context = !args.isLauncher && isKernelPanel(current) ? current.sessionContext : null;
      let opened: unknown;
      await told(async () => {
        opened = await kernels.choose(context, typeof args.cwd === 'string' ? args.cwd : '');
      });
      return opened;
    }
  });
  void app.restored.then(async () => {
    const tries = await kernels.states.find();
    if (!kernels.states.offer) {
      return;
    }
    offered = true;
    app.commands.notifyCommandChanged(COMMAND);
    launcher?.add({
      command: COMMAND,
      category: 'Notebook',
      rank: 1000,
      args: { isLauncher: true },
      kernelIconUrl: `data:image/svg+xml,${encodeURIComponent(SVG)}`
    });
    menu?.kernelMenu.addGroup([{ command: COMMAND }], 50);
    palette?.addItem({ command: COMMAND, category: 'Portal', args: { isPalette: true } });
    kernels.follow(shell);
    if (tries > 1) {
      await app.serviceManager.kernelspecs.refreshSpecs(); // they were written meanwhile
    }
  });
}

const jobKernels: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:job-kernels',
  description: 'Kernels in Slurm jobs of their own: choosing one, and their states',
  autoStart: true,
  requires: [ILabShell],
  optional: [ILauncher, IMainMenu, ICommandPalette],
  activate
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [jobKernels as JupyterFrontEndPlugin<unknown>];

export default plugins;
