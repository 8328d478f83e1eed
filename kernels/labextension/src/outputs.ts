/** Output that a page missed while it was closed or disconnected (portal_session.notebooks.unattended). */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { DisposableDelegate } from '@lumino/disposable';

import { ask } from './api';

const PAUSE = 1000; // milliseconds between two requests
/** Message of a kernel that outlived a server: the new one knows the outputs that it missed. */
const PAST_END = 'portal_past_end'; // portal_session/notebooks/kernel_follower.py

/** An execution. `own`: this page requested it, and shows its output itself. */
interface Execution {
  id: string;
  cell: string;
  own: boolean;
  running: boolean;
  execution_count: number | null;
  outputs: unknown[];
}

/** The used part of a code cell's model. */
interface CodeCell {
  readonly id: string;
  readonly type: string;
  executionCount: number | null;
  executionState?: 'idle' | 'running';
  readonly outputs: { fromJSON(values: unknown[]): void; toJSON(): unknown[] };
}

/** The used part of a notebook's panel. */
interface NotebookPanel {
  readonly sessionContext: ISessionContext;
  readonly content: { readonly model: { readonly cells: Iterable<CodeCell> } | null };
}

/** Requests the outputs of a notebook when it is opened, when its kernel reconnects, and while
 * an execution runs that no page shows. */
class MissedOutputs {
  constructor(private readonly panel: NotebookPanel) {
    const context = panel.sessionContext;
    context.connectionStatusChanged.connect(this.onConnection, this);
    context.iopubMessage.connect(this.onMessage, this);
    window.addEventListener('online', this.reconnect);
    document.addEventListener('visibilitychange', this.reconnect);
    void context.ready.then(() => this.soon());
  }

  dispose(): void {
    this.disposed = true;
    window.clearTimeout(this.timer);
    this.panel.sessionContext.connectionStatusChanged.disconnect(this.onConnection, this);
    this.panel.sessionContext.iopubMessage.disconnect(this.onMessage, this);
    window.removeEventListener('online', this.reconnect);
    document.removeEventListener('visibilitychange', this.reconnect);
  }

  private onConnection(_: unknown, status: Kernel.ConnectionStatus): void {
    if (status === 'connected') {
      this.soon();
    }
  }

  private onMessage(_: unknown, message: KernelMessage.IMessage): void {
    if ((message.header.msg_type as string) === PAST_END) {
      this.soon();
      return;
    }
    const asked = message.parent_header as Partial<KernelMessage.IHeader>;
    if (!asked.msg_id || asked.msg_type !== 'execute_request') {
      return;
    }
    const foreign = asked.session !== this.kernel?.clientId;
    if (foreign || this.running.has(asked.msg_id)) {
      this.soon();
    }
  }

  /** JupyterLab gives up after two minutes; a laptop sleeps longer. */
  private readonly reconnect = (): void => {
    const kernel = this.kernel;
    if (!document.hidden && kernel?.connectionStatus === 'disconnected') {
      void kernel.reconnect().catch(() => undefined);
    }
  };

  private get kernel(): Kernel.IKernelConnection | null | undefined {
    return this.panel.sessionContext.session?.kernel;
  }

  private soon(): void {
    if (this.timer === undefined && !this.disposed) {
      this.timer = window.setTimeout(() => void this.look(), PAUSE);
    }
  }

  private async look(): Promise<void> {
    const kernel = this.kernel;
    let found: Execution[] = [];
    try {
      if (kernel && kernel.connectionStatus === 'connected') {
        const asked = { kernel: kernel.id, client: kernel.clientId };
        found = (await ask<{ executions: Execution[] }>('missed-outputs', asked)).executions;
      }
    } catch {
      // The server does not answer, or has no such route; a later event tries again.
    } finally {
      this.timer = undefined;
    }
    if (this.disposed) {
      return;
    }
    this.running = new Set(found.filter(execution => execution.running).map(execution => execution.id));
    for (const execution of found) {
      this.show(execution);
    }
    if (this.running.size) {
      this.soon();
    }
  }

  private show(execution: Execution): void {
    if (execution.own && execution.running) {
      return; // JupyterLab shows it; missed output follows at the end
    }
    for (const cell of this.panel.content.model?.cells ?? []) {
      if (cell.id !== execution.cell || cell.type !== 'code') {
        continue;
      }
      if (JSON.stringify(cell.outputs.toJSON()) !== JSON.stringify(execution.outputs)) {
        cell.outputs.fromJSON(execution.outputs);
      }
      if (cell.executionCount !== execution.execution_count) {
        cell.executionCount = execution.execution_count;
      }
      cell.executionState = execution.running ? 'running' : 'idle';
    }
  }

  private running = new Set<string>();
  private timer: number | undefined;
  private disposed = false;
}

const missed: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:outputs',
  description: 'Shows the output of cells that ran while no page was open.',
  autoStart: true,
  activate: (app: JupyterFrontEnd): void => {
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: panel => {
        const looking = new MissedOutputs(panel as unknown as NotebookPanel);
        return new DisposableDelegate(() => looking.dispose());
      }
    });
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [missed];

export default plugins;
