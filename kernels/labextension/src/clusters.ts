/** The panel of clusters, and the command for a new one (portal_session.clusters.lab). */
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { ask, PortalError } from './api';
import { panelCommands, told } from './commands';

const PANEL = 'portal-clusters-panel';
const SHOW = 'portal:show-clusters';
const NEW = 'portal:new-cluster';
const SOON = 5000; // milliseconds: the portal may not know a new session yet
const TRIES = 12;

const icon = new LabIcon({
  name: '@data-scientist-portal/session:clusters',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
    '<path class="jp-icon3" fill="#616161" d="M9 2h6v6h-2v3h6v5h2v6h-6v-6h2v-3H7v3h2v6H3v-6h2v-5h6V8H9z"/></svg>'
});

/** As portal_session/clusters/lab.py has them. `kept`: it outlives the session. */
export interface Cluster {
  id: string;
  engine: string;
  workers: number;
  running: number;
  problem: string;
  kept: boolean;
  state?: string | null; // of a kept one's scheduler
}

export interface Engine {
  name: string;
  title: string;
  keeps: boolean;
  dashboard: boolean;
}

/** `most`: workers of a user in all clusters; `idle`: seconds after which unused ones have none. */
export interface Clusters {
  items: Cluster[];
  engines: Engine[];
  most: number;
  idle: number;
}

/** The panel's widget in the side bar; filled when it is first shown. */
class PanelPlace extends Widget {
  private _filled = false;

  constructor(private readonly _app: JupyterFrontEnd) {
    super();
    this.id = PANEL;
    this.addClass('portal-Panel');
    this.title.icon = icon;
    this.title.caption = 'Clusters: workers in Slurm jobs';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Clusters');
  }

  protected onAfterShow(): void {
    if (!this._filled) {
      this._filled = true;
      this._fill().catch(error => {
        this._filled = false;
        this.node.textContent = `The panel cannot be loaded: ${String(error)}`;
      });
    }
  }

  private async _fill(): Promise<void> {
    const { ClustersPanel } = await import('./clusters-panel');
    new ClustersPanel(
      this.node,
      () => void this._app.commands.execute(NEW),
      () => this.isVisible
    );
  }
}

/** Asks whether this session may have clusters, for a minute at most. */
async function offered(): Promise<boolean> {
  for (let tries = 1; tries <= TRIES; tries++) {
    try {
      await ask<Clusters>('clusters');
      return true;
    } catch (error) {
      if (error instanceof PortalError && [403, 404].includes(error.status)) {
        return false; // such as some spaces'
      }
    }
    await new Promise(resolve => window.setTimeout(resolve, SOON));
  }
  return false;
}

const clusters: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:clusters',
  description: 'Lists clusters of workers in Slurm jobs, and makes new ones',
  autoStart: true,
  optional: [ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ) => {
    const panel = new PanelPlace(app);
    restorer?.add(panel, PANEL);
    let allowed = false;
    const isEnabled = (): boolean => allowed;
    app.commands.addCommand(SHOW, {
      label: 'Portal: Clusters',
      isEnabled,
      execute: () => app.shell.activateById(PANEL)
    });
    app.commands.addCommand(NEW, {
      label: 'Portal: New cluster…',
      isEnabled,
      execute: () =>
        told(async () => {
          const { makeCluster } = await import('./cluster-dialog');
          await makeCluster(app.commands);
        })
    });
    for (const command of [SHOW, NEW]) {
      palette?.addItem({ command, category: 'Portal' });
    }
    panelCommands.push(SHOW);
    void app.restored.then(async () => {
      allowed = await offered();
      if (allowed) {
        app.shell.add(panel, 'left', { rank: 500 });
        app.commands.notifyCommandChanged();
      }
    });
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [clusters as JupyterFrontEndPlugin<unknown>];

export default plugins;
