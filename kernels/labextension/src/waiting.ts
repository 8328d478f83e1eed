/** "Why is my GPU waiting?", and the packing of a folder of small files (portal_session.waiting, .packing). */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { ask } from './api';
import { panelCommands, told } from './commands';

const WHY = 'portal:why-waiting';
const PAUSE = 1000; // milliseconds between two requests
const SECONDS = 5; // as portal_session/waiting/waiting.py looks

/** As portal_session/waiting/answer.py has it. */
interface Answer {
  sentence: string;
  advice: string;
  folder: string;
  pack: boolean;
}

/** As portal_session/packing/packer.py has it. */
interface Progress {
  folder: string;
  state: 'counting' | 'packing' | 'packed' | 'failed' | 'cancelled';
  words: string;
  percent: number;
  files: number;
}

async function why(): Promise<void> {
  const words = `Looking at the programs of this session for ${SECONDS} seconds…`;
  const notice = Notification.emit(words, 'in-progress', { autoClose: false });
  let answer: Answer;
  try {
    answer = await ask<Answer>('waiting', { seconds: SECONDS });
  } finally {
    Notification.dismiss(notice);
  }
  const body = new Widget();
  body.addClass('portal-Message');
  body.node.append(...[answer.sentence, answer.advice].filter(text => text).map(paragraph));
  const close = Dialog.cancelButton({ label: 'Close' });
  const pack = Dialog.okButton({ label: 'Pack folder' });
  const { button } = await showDialog({
    title: 'Why is my GPU waiting?',
    body,
    buttons: answer.pack ? [close, pack] : [close]
  });
  if (button.accept) {
    await packFolder(answer.folder);
  }
}

/** Packs a folder, and follows that until its end. */
async function packFolder(folder: string): Promise<void> {
  let progress = await ask<Progress>('packing', { folder });
  const cancel = {
    label: 'Cancel',
    callback: (event: MouseEvent): void => {
      event.preventDefault(); // the notification stays until packing has ended
      void told(() => ask('packing', undefined, 'DELETE'));
    }
  };
  const options = { actions: [cancel], autoClose: false as const };
  const id = Notification.emit(state(progress), 'in-progress', options);
  try {
    while (progress.state === 'counting' || progress.state === 'packing') {
      await new Promise(resolve => window.setTimeout(resolve, PAUSE));
      progress = (await ask<{ progress: Progress }>('packing')).progress;
      Notification.update({ id, message: state(progress) });
    }
  } finally {
    Notification.dismiss(id);
  }
  if (progress.state === 'packed') {
    Notification.success(progress.words, { autoClose: false });
  } else {
    Notification.error(progress.words, { autoClose: false });
  }
}

function state(progress: Progress): string {
  const files = `${progress.files.toLocaleString('en')} files`;
  return progress.state === 'packing'
    ? `Packing ${progress.folder}: ${files}, ${progress.percent} %`
    : `Packing ${progress.folder}: counting, ${files}`;
}

function paragraph(text: string): HTMLElement {
  const node = document.createElement('p');
  node.textContent = text;
  return node;
}

const waiting: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:waiting',
  description: 'Says why the GPU waits, and packs a folder of small files',
  autoStart: true,
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, palette: ICommandPalette | null) => {
    app.commands.addCommand(WHY, {
      label: 'Portal: Why is my GPU waiting?',
      execute: () => told(why)
    });
    palette?.addItem({ command: WHY, category: 'Portal' });
    panelCommands.push(WHY);
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [waiting as JupyterFrontEndPlugin<unknown>];

export default plugins;
