/** The session's time, GPUs and memory in the status bar; the panel, commands and warnings. */
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { ask } from './api';
import { Commands } from './commands';
import { ended } from './ended';
import { Notices } from './notices';
import { SidePanel } from './side-panel';
import { situations } from './situations';
import { hasGpus, memory, percent, timeLeft } from './words';

const PANEL = 'portal-session-panel';
const TICK = 5000; // milliseconds; the remaining time is updated between two answers

const icon = new LabIcon({
  name: '@data-scientist-portal/session:session',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
    '<path class="jp-icon3" fill="#616161" d="M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm0 18a8 8 0 1 1 ' +
    '0-16 8 8 0 0 1 0 16zm.8-13h-1.6v6l5 3 .8-1.3-4.2-2.5z"/></svg>'
});

/** One line; a button, for keyboard access. */
class StatusItem extends Widget {
  private readonly _button = document.createElement('button');

  constructor(open: () => void) {
    super();
    this.addClass('portal-StatusItem');
    this.addClass('portal-BarItem');
    this._button.type = 'button';
    this._button.addEventListener('click', open);
    this.node.append(this._button);
    this.render();
  }

  render(): void {
    const { situation, reading, left, problem } = situations;
    const { over } = ended;
    const { failing } = situations;
    // In words, too: JupyterLab loads what shows its notifications from the server.
    const state = over ? 'Session ended' : failing ? 'Session does not answer' : '';
    const parts = [state, over ? '' : timeLeft(left)].filter(Boolean);
    if (!failing && hasGpus(situation, reading)) {
      const name = reading?.simulated ? 'GPU (simulated)' : 'GPU';
      const used = memory(reading?.gpuMemory ?? null, reading?.gpuMemoryTotal ?? null);
      parts.push(`${name} ${percent(reading?.busy ?? null)}`, `GPU memory ${used}`);
    }
    if (!failing) {
      parts.push(`Memory ${memory(reading?.memory ?? null, reading?.memoryLimit ?? null)}`);
    }
    const text = parts.join(' · ');
    if (this._button.textContent !== text) {
      this._button.textContent = text;
      this._button.setAttribute('aria-label', `Session: ${parts.join(', ')}. Show panel`);
    }
    this._button.title = problem ? problem.words : 'Time, GPUs and memory of this session';
    const warn = Math.max(0, ...(situation?.warn_minutes ?? [])) * 60;
    this.toggleClass('portal-mod-warn', !over && left !== null && left <= warn);
    this.toggleClass('portal-mod-stale', problem !== null);
  }
}

const status: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:status',
  description: 'Time, GPUs and memory of the session, warnings before its end, and its panel',
  autoStart: true,
  optional: [IStatusBar, ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    statusBar: IStatusBar | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ) => {
    const commands = new Commands(app.commands, situations, () => app.shell.activateById(PANEL));
    commands.add(palette);
    const caption = 'This session: time, GPUs and memory';
    const panel = new SidePanel({ id: PANEL, icon, caption, name: 'This session' }, async place => {
      const { Panel } = await import('./panel');
      new Panel(place.node, situations, commands, () => place.isVisible);
    });
    app.shell.add(panel, 'right', { rank: 900 });
    restorer?.add(panel, PANEL);
    const notices = new Notices(Notification.manager, situations, commands);
    const item = new StatusItem(() => commands.showPanel());
    const tick = (): void => {
      item.render();
      if (ended.over) {
        notices.dismiss();
      } else {
        notices.look();
      }
    };
    situations.changed.connect(tick);
    ended.found.connect(tick);
    window.setInterval(tick, TICK);
    statusBar?.registerStatusItem(status.id, { item, align: 'right', rank: 90 });
    // Start after Lab is usable.
    void app.restored.then(() => {
      situations.start();
      notices.tellSetAside(PageConfig.getOption('portalSetAside'));
      // Time since the navigation began; the portal keeps the value of the session's first page.
      const page = performance.now() / 1000;
      ask('startup', { steps: { page } }).catch(() => undefined);
    });
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [status as JupyterFrontEndPlugin<unknown>];

export default plugins;
