/** Content of the panel of clusters; loaded when it is first opened. Text only, no markup. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';

import { ask } from './api';
import type { Cluster, Clusters } from './clusters';
import { told } from './commands';
import { button, element, write } from './elements';
import { duration } from './words';

const EVERY = 4000; // milliseconds between two requests while the panel is shown
const NONE =
  'No cluster. A cluster gives a notebook workers, each a Slurm job in this session’s environment.';

export class ClustersPanel {
  private readonly _state = element('p');
  private readonly _list = element('ul');
  private _shown = '';

  /** Fill `node`, and update it while `visible()`. `make` asks for a new cluster. */
  constructor(node: HTMLElement, make: () => void, visible: () => boolean) {
    const row = element('div', '', 'portal-Buttons');
    row.append(button('New cluster…', make));
    this._state.setAttribute('role', 'status');
    this._list.className = 'portal-Clusters';
    node.append(element('h2', 'Clusters'), row, this._state, this._list);
    const look = (): void => {
      if (visible() && !document.hidden) {
        void this._look();
      }
    };
    look();
    window.setInterval(look, EVERY);
  }

  private async _look(): Promise<void> {
    try {
      this._show(await ask<Clusters>('clusters'));
    } catch (error) {
      write(this._state, error instanceof Error ? error.message : String(error));
    }
  }

  private _show(clusters: Clusters): void {
    write(this._state, clusters.items.length ? '' : NONE);
    const text = JSON.stringify(clusters);
    // Only rebuilt when changed, and not while a number is typed: else the focus is lost.
    const typed = this._list.contains(document.activeElement);
    if (text === this._shown || (typed && document.activeElement instanceof HTMLInputElement)) {
      return;
    }
    const focused = typed ? document.activeElement?.getAttribute('aria-label') : null;
    this._shown = text;
    this._list.replaceChildren(...clusters.items.map(item => this._item(item, clusters)));
    const again = [...this._list.querySelectorAll<HTMLElement>('[aria-label]')];
    again.find(one => focused && one.getAttribute('aria-label') === focused)?.focus();
  }

  private _item(cluster: Cluster, { engines, idle }: Clusters): HTMLElement {
    const { id, kept, workers, running, problem, engine } = cluster;
    const { title, dashboard } = engines.find(one => one.name === engine) ?? { title: engine };
    const name = `${title} cluster ${id.slice(0, 6)}`;
    const item = element('li');
    item.dataset.cluster = id;
    const words = `${running} of ${workers} ${workers === 1 ? 'worker' : 'workers'}`;
    const waits = kept && cluster.state !== 'running' ? ', its scheduler waits' : '';
    item.append(element('h3', name), element('p', `${words}${kept ? ', kept' : ''}${waits}`));
    if (problem) {
      item.append(element('p', problem, 'portal-mod-problem'));
    }
    if (kept) {
      const after = `Without a client and tasks, it has no workers after ${duration(idle)}.`;
      item.append(element('p', `Connect: ${engine}("${id.slice(0, 6)}"). ${after}`));
    }
    const row = element('div', '', 'portal-Buttons');
    row.append(...this._scale(cluster, name));
    if (dashboard) {
      row.append(this._dashboard(cluster, name));
    }
    row.append(button('Stop…', () => void this._stop(cluster, name), `Stop ${name}`));
    item.append(row);
    return item;
  }

  private _scale({ id, workers, kept }: Cluster, name: string): HTMLElement[] {
    const number = element('input');
    number.type = 'number';
    number.min = kept ? '0' : '1';
    number.value = String(workers);
    number.setAttribute('aria-label', `Workers of ${name}`);
    const scale = (): void => {
      number.blur(); // else the list is not rebuilt
      void told(async () => {
        await ask(`clusters/${id}`, { workers: Number(number.value || NaN) });
        this._shown = '';
      }).then(() => this._look());
    };
    number.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        scale();
      }
    });
    return [number, button('Scale', scale, `Scale ${name}`)];
  }

  private _dashboard({ id }: Cluster, name: string): HTMLElement {
    const link = element('a', 'Dashboard');
    link.href = URLExt.join(PageConfig.getBaseUrl(), 'portal/clusters', id, 'status');
    link.target = '_blank';
    link.rel = 'noopener';
    link.setAttribute('aria-label', `Dashboard of ${name}`);
    return link;
  }

  private async _stop({ id, kept }: Cluster, name: string): Promise<void> {
    const on = kept ? 'Your sessions go on.' : 'The notebook goes on.';
    const { button } = await showDialog({
      title: `Stop ${name}?`,
      body: `Its workers, and what is in memory there, are gone. ${on}`,
      buttons: [
        Dialog.cancelButton({ label: 'Keep running' }),
        Dialog.warnButton({ label: 'Stop' })
      ]
    });
    if (button.accept) {
      await told(() => ask(`clusters/${id}`, undefined, 'DELETE'));
      await this._look();
    }
  }
}
