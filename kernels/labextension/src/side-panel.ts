/** A panel in the side bar, filled when it is first shown: its content is a script of its own. */
import type { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

/** `name` is what screen readers say. */
export interface PanelWords {
  id: string;
  icon: LabIcon;
  caption: string;
  name: string;
}

/** `fill` loads the content and puts it into the panel's node. */
export class SidePanel extends Widget {
  private _filled = false;

  constructor(
    { id, icon, caption, name }: PanelWords,
    private readonly _fill: (panel: SidePanel) => Promise<void>
  ) {
    super();
    this.id = id;
    this.addClass('portal-Panel');
    this.title.icon = icon;
    this.title.caption = caption;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', name);
  }

  protected onAfterShow(): void {
    if (!this._filled) {
      this._filled = true;
      this._fill(this).catch(error => {
        this._filled = false;
        this.node.textContent = `The panel cannot be loaded: ${String(error)}`;
      });
    }
  }
}
