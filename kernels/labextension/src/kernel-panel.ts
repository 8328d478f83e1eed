/** The used part of a notebook's or console's panel. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Toolbar } from '@jupyterlab/ui-components';
import type { Widget } from '@lumino/widgets';

export interface KernelPanel extends Widget {
  readonly sessionContext: ISessionContext;
  readonly toolbar: Toolbar;
}

export function isKernelPanel(widget: Widget | null): widget is KernelPanel {
  const { sessionContext, toolbar } = (widget ?? {}) as Partial<KernelPanel>;
  return !!sessionContext && !!toolbar;
}
