/** Content of the panel of uploads; loaded when it is first opened. Text only, no markup. */
import { Dialog, showDialog } from '@jupyterlab/apputils';

import { ask } from './api';
import { told } from './commands';
import { button, element, write } from './elements';
import { sameFile, Transfer } from './transfer';
import type { Unfinished } from './uploads';
import { bytes } from './words';

const EVERY = 3000; // milliseconds between two looks at the folder
const NONE =
  'Files of any size, straight to the folder that the file browser shows. What is cut goes on: ' +
  'choose the same file again, for a week.';

export class UploadsPanel {
  private readonly _to = element('p');
  private readonly _list = element('ul', '', 'portal-Clusters');
  private readonly _left = element('ul', '', 'portal-Clusters');
  private readonly _leftTitle = element('h3', 'Unfinished');
  private readonly _transfers = new Set<Transfer>();

  /** Fill `node`. `folder`: the path of the folder that the file browser shows. */
  constructor(
    node: HTMLElement,
    private readonly _folder: () => string,
    visible: () => boolean
  ) {
    const input = element('input');
    input.type = 'file';
    input.multiple = true;
    input.hidden = true;
    input.setAttribute('aria-label', 'Files to upload');
    input.addEventListener('change', () => {
      const files = Array.from(input.files ?? []);
      input.value = ''; // the same file can be chosen again
      void told(() => this._begin(files));
    });
    const row = element('div', '', 'portal-Buttons');
    row.append(button('Choose files…', () => input.click()), input);
    this._list.setAttribute('aria-label', 'Uploads');
    this._left.setAttribute('aria-label', 'Unfinished uploads');
    node.append(element('h2', 'Uploads'), element('p', NONE), this._to, row, this._list);
    node.append(this._leftTitle, this._left);
    const look = (): void => {
      if (visible()) {
        write(this._to, `To: ${this._folder() || 'the home folder of this server'}`);
      }
    };
    look();
    window.setInterval(look, EVERY);
    void told(() => this._lookAtLeft());
    window.addEventListener('beforeunload', event => {
      if ([...this._transfers].some(transfer => transfer.goesOn)) {
        event.preventDefault();
      }
    });
  }

  private async _begin(files: File[]): Promise<void> {
    const folder = this._folder();
    const left = await this._unfinished();
    for (const file of files) {
      const before = left.find(item => sameFile(file, item));
      const transfer = new Transfer(file, folder, before, {
        ended: () => void this._lookAtLeft(),
        removed: gone => {
          this._transfers.delete(gone);
          void this._lookAtLeft();
        },
        replace: words => confirmed(words, 'Replace')
      });
      this._transfers.add(transfer);
      this._list.append(transfer.node);
      transfer.start();
    }
    await this._lookAtLeft();
  }

  private async _unfinished(): Promise<Unfinished[]> {
    return (await ask<{ items: Unfinished[] }>('uploads')).items;
  }

  /** Shows what earlier pages have left unfinished. */
  private async _lookAtLeft(): Promise<void> {
    const unfinished = await this._unfinished();
    const shown = [...this._transfers];
    const items = unfinished.filter(item => !shown.some(transfer => transfer.isOf(item)));
    this._leftTitle.hidden = !items.length;
    this._left.replaceChildren(
      ...items.map(item => {
        const line = element('li');
        const words = `${bytes(item.offset)} of ${bytes(item.length)}, to ${item.folder}`;
        const remove = (): void => void told(() => this._remove(item));
        line.append(
          element('h3', item.name),
          element('p', words),
          button('Remove…', remove, `Remove the unfinished upload of ${item.name}`)
        );
        return line;
      })
    );
  }

  private async _remove(item: Unfinished): Promise<void> {
    if (await confirmed(`What has arrived of ${item.name} will be deleted.`, 'Remove')) {
      await ask(`uploads/${item.id}`, undefined, 'DELETE');
      await this._lookAtLeft();
    }
  }
}

async function confirmed(body: string, label: string): Promise<boolean> {
  const buttons = [Dialog.cancelButton(), Dialog.warnButton({ label })];
  return (await showDialog({ title: `${label}?`, body, buttons })).button.accept;
}
