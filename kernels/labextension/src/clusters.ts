/** The panel of clusters, and the command for a new one (portal_session.clusters.lab). */
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { LabIcon } from '@jupyterlab/ui-components';

import { ask, PortalError } from './api';
import { panelCommands, told } from './commands';
import { SidePanel } from './side-panel';

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
    const caption = 'Clusters: workers in Slurm jobs';
    const panel = new SidePanel({ id: PANEL, icon, caption, name: 'Clusters' }, async place => {
      const { ClustersPanel } = await import('./clusters-panel');
      const make = (): void => void app.commands.execute(NEW);
      new ClustersPanel(place.node, make, () => place.isVisible);
    });
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
