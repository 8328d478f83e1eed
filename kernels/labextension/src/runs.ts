/**
 * "Run as job": a notebook, a script or a cell becomes a run, from the toolbar of its document, the
 * context menus, the palette, and the portal's page of runs.
 */
import {
  ILabShell,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { FileDialog, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { LabIcon, type Toolbar, ToolbarButton } from '@jupyterlab/ui-components';
import type { Widget } from '@lumino/widgets';

import { told } from './commands';
import { findChoices, offerOf, type RunChoices, type Source, type StartedRun } from './run-offer';

const RUN = 'portal:run-as-job';
const RUN_SELECTED = 'portal:run-selected-as-job';
const RUN_CELL = 'portal:run-cell-as-job';
const LABEL = 'Run as job…';
const CAPTION = 'Run this file in Slurm jobs, once for each set of parameters';
const CELL_LABEL = 'Run this cell as job…';
const OPEN_FOLDER = 'filebrowser:go-to-path';
const ASKED = 'portal-run'; // of the address: portal/work/run/pages.py
const CAN_RUN = /\.(ipynb|py)$/;

const icon = new LabIcon({
  name: '@data-scientist-portal/session:run',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
    '<path class="jp-icon3" fill="#616161" d="M3 5h11v2H3zm0 6h9v2H3zm0 6h7v2H3zm11-6 8 5-8 5z"/></svg>'
});

/** The used part of a document's panel; of a notebook, its active cell. */
interface Panel {
  readonly toolbar?: Toolbar;
  readonly content?: {
    readonly activeCell?: { readonly model: { type: string; sharedModel: { getSource(): string } } };
  };
}

class Runs {
  choices: RunChoices | null = null;
  private readonly _seen = new WeakSet<Widget>();

  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _documents: IDocumentManager
  ) {}

  /** The path of the notebook or script that `widget` shows; '' if it shows none. */
  pathOf(widget: Widget | null): string {
    const path = (widget && this._documents.contextForWidget(widget)?.path) ?? '';
    return CAN_RUN.test(path) ? path : '';
  }

  /** The code of the active cell of the notebook that `widget` shows; null without one. */
  cellOf(widget: Widget | null): string | null {
    const model = (widget as (Widget & Panel) | null)?.content?.activeCell?.model;
    return model?.type === 'code' ? model.sharedModel.getSource() : null;
  }

  /** Adds the button to the toolbars of notebooks and scripts, now and when one is opened. */
  follow(shell: ILabShell): void {
    const look = (): void => {
      for (const widget of shell.widgets('main')) {
        const { toolbar } = widget as Widget & Panel;
        if (toolbar && !this._seen.has(widget) && this.pathOf(widget)) {
          this._seen.add(widget);
          const onClick = (): void => void told(() => this.open(this.pathOf(widget)));
          // Without a text, or the name of a kernel with GPUs would have no place.
          const button = new ToolbarButton({ icon, tooltip: LABEL, onClick });
          if (!toolbar.insertAfter('restart-and-run', 'portalRunAsJob', button)) {
            toolbar.addItem('portalRunAsJob', button);
          }
        }
      }
    };
    look();
    shell.layoutModified.connect(look);
  }

  /** Asks for a run of the file, or of the code of one of its cells, and starts it. */
  async open(path: string, cell?: string): Promise<void> {
    if (!this.choices || !path) {
      return;
    }
    await this._save(path);
    const source: Source = { source: this._documents.services.contents.localPath(path) };
    if (cell !== undefined) {
      source.cell = cell;
    }
    const offer = await offerOf(this.choices, source);
    const { startRun } = await import('./run-dialog');
    const run = await startRun(offer);
    if (run) {
      this._tell(run, offer.choices);
    }
  }

  /** Lets the user choose a notebook or script, for the portal's page of runs. */
  async choose(): Promise<void> {
    const answer = await FileDialog.getOpenFiles({
      manager: this._documents,
      title: 'Choose a notebook or script for a new run',
      filter: model => (model.type === 'directory' || CAN_RUN.test(model.name ?? '') ? {} : null)
    });
    const chosen = answer.button.accept ? (answer.value ?? []) : [];
    const file = chosen.find(model => CAN_RUN.test(model.path));
    if (file) {
      await this.open(file.path);
    } else if (answer.button.accept) {
      Notification.info('Choose a notebook (.ipynb) or a Python script (.py).', { autoClose: 8000 });
    }
  }

  /** Saves what is changed in the file's document: a run has the file's content. */
  private async _save(path: string): Promise<void> {
    for (const widget of this._app.shell.widgets('main')) {
      const context = this._documents.contextForWidget(widget);
      if (context?.path !== path || !context.model.dirty) {
        continue;
      }
      let why = '';
      try {
        await context.save();
      } catch (error) {
        why = error instanceof Error ? ` ${error.message}` : '';
      }
      if (context.model.dirty) {
        throw new Error(`“${path}” could not be saved, so no run was started.${why}`);
      }
    }
  }

  private _tell(run: StartedRun, { pages }: RunChoices): void {
    const points = `${run.points.toLocaleString('en')} ${run.points === 1 ? 'point' : 'points'}`;
    const starts = run.after
      ? `starts once all points of “${run.after}” have succeeded`
      : 'has started';
    const words = `Run “${run.name}” ${starts}: ${points}, at most ${run.at_once} at once.`;
    const show = (): void => void window.open(`${pages}${run.id}`, '_blank', 'noopener');
    const actions: Notification.IAction[] = [{ label: 'Show', displayType: 'link', callback: show }];
    if (run.folder) {
      const open = (): void => void this._app.commands.execute(OPEN_FOLDER, { path: run.folder });
      actions.push({ label: 'Open folder', displayType: 'link', callback: open });
    }
    Notification.success(run.message ? `${words} ${run.message}` : words, {
      actions,
      autoClose: false
    });
  }
}

function addCommands(
  app: JupyterFrontEnd,
  runs: Runs,
  shell: ILabShell,
  browsers: IFileBrowserFactory | null
): void {
  const offered = (): boolean => !!runs.choices;
  const selected = (): string => {
    const items = Array.from(browsers?.tracker.currentWidget?.selectedItems() ?? []);
    return items.length === 1 && CAN_RUN.test(items[0].path) ? items[0].path : '';
  };
  app.commands.addCommand(RUN, {
    label: args => (args.isPalette ? `Portal: ${LABEL}` : LABEL),
    caption: CAPTION,
    isVisible: offered,
    isEnabled: () => offered() && !!runs.pathOf(shell.currentWidget),
    execute: () => told(() => runs.open(runs.pathOf(shell.currentWidget)))
  });
  app.commands.addCommand(RUN_SELECTED, {
    label: LABEL,
    caption: CAPTION,
    icon,
    isVisible: () => offered() && !!selected(),
    execute: () => told(() => runs.open(selected()))
  });
  app.commands.addCommand(RUN_CELL, {
    label: args => (args.isPalette ? `Portal: ${CELL_LABEL}` : CELL_LABEL),
    caption: 'Run the code of this cell in Slurm jobs, as a script next to the notebook',
    icon: args => (args.isPalette ? undefined : icon),
    isVisible: offered,
    isEnabled: () => offered() && runs.cellOf(shell.currentWidget) !== null,
    execute: () => {
      const widget = shell.currentWidget;
      return told(() => runs.open(runs.pathOf(widget), runs.cellOf(widget) ?? ''));
    }
  });
  const items = '.jp-DirListing-item[data-isdir="false"]';
  app.contextMenu.addItem({ command: RUN_SELECTED, selector: items, rank: 3 });
  app.contextMenu.addItem({ command: RUN_CELL, selector: '.jp-Notebook .jp-CodeCell', rank: 8 });
}

/** Takes what was asked for out of the address: a page that is loaded again does not ask again. */
function forgetAsked(): void {
  const url = new URL(window.location.href);
  url.searchParams.delete(ASKED);
  window.history.replaceState(window.history.state, '', url);
}

function activate(
  app: JupyterFrontEnd,
  shell: ILabShell,
  documents: IDocumentManager,
  browsers: IFileBrowserFactory | null,
  menu: IMainMenu | null,
  palette: ICommandPalette | null
): void {
  const runs = new Runs(app, documents);
  const asked = new URLSearchParams(window.location.search).get(ASKED);
  addCommands(app, runs, shell, browsers);
  void app.restored.then(async () => {
    runs.choices = await findChoices();
    if (asked !== null) {
      forgetAsked(); // JupyterLab has made its own changes to the address by now
    }
    if (!runs.choices) {
      if (asked !== null) {
        Notification.error('Runs are not offered in this session.', { autoClose: false });
      }
      return;
    }
    for (const command of [RUN, RUN_SELECTED, RUN_CELL]) {
      app.commands.notifyCommandChanged(command);
    }
    menu?.runMenu.addGroup([{ command: RUN }, { command: RUN_CELL }], 50);
    palette?.addItem({ command: RUN, category: 'Portal', args: { isPalette: true } });
    palette?.addItem({ command: RUN_CELL, category: 'Portal', args: { isPalette: true } });
    runs.follow(shell);
    if (asked !== null) {
      await told(() => (CAN_RUN.test(asked) ? runs.open(asked) : runs.choose()));
    }
  });
}

const runs: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:runs',
  description: 'Runs of notebooks, scripts and cells as Slurm jobs',
  autoStart: true,
  requires: [ILabShell, IDocumentManager],
  optional: [IFileBrowserFactory, IMainMenu, ICommandPalette],
  activate
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [runs as JupyterFrontEndPlugin<unknown>];

export default plugins;
