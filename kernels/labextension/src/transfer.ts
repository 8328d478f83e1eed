/** One upload of the panel: its line in the list, with progress, pause and cancel. */
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { DetailedError, type HttpRequest, Upload } from 'tus-js-client';

import { told } from './commands';
import { button, element, write } from './elements';
import type { Unfinished } from './uploads';
import { bytes } from './words';

// portal_session/uploads/handlers.py reads that much of a body that it refuses.
const PIECE = 64 * 1024 * 1024;
const PAUSES = [0, 1000, 3000, 10000, 30000, 60000, 60000, 60000]; // milliseconds
const FULL = 507;
const TAKEN = 423;
const EXISTS = 409;

export interface Watcher {
  ended: () => void;
  removed: (transfer: Transfer) => void;
  replace: (words: string) => Promise<boolean>;
}

export class Transfer {
  readonly node = element('li');
  private readonly _bar = element('progress');
  private readonly _words = element('p');
  private readonly _pause: HTMLButtonElement;
  private readonly _cancel: HTMLButtonElement;
  private _upload: Upload;
  private _state: 'going' | 'paused' | 'failed' | 'done' = 'paused';
  private _since = 0; // time and bytes of the measured rate
  private _sinceBytes = 0;

  /** `before`: what an earlier page has left of the same file. */
  constructor(
    private readonly _file: File,
    private readonly _folder: string,
    before: Unfinished | undefined,
    private readonly _watcher: Watcher
  ) {
    this._bar.max = Math.max(1, _file.size);
    this._bar.value = before?.offset ?? 0;
    this._bar.setAttribute('aria-label', `Progress of ${_file.name}`);
    this._words.setAttribute('role', 'status');
    this._pause = button('Pause', () => this._toggle());
    this._cancel = button('Cancel', () => void told(() => this._remove()));
    this._cancel.setAttribute('aria-label', `Cancel the upload of ${_file.name}`);
    const row = element('div', '', 'portal-Buttons');
    row.append(this._pause, this._cancel);
    this.node.append(element('h3', _file.name), this._bar, this._words, row);
    this._upload = this._made(before && address(before.id));
    this._draw('');
  }

  isOf(item: Unfinished): boolean {
    // A new upload has no address until the server has answered.
    return this._upload.url?.split('/').pop() === item.id || sameFile(this._file, item);
  }

  get goesOn(): boolean {
    return this._state === 'going';
  }

  start(): void {
    this._since = 0;
    this._draw('going', 'Starting.');
    this._upload.start();
  }

  private _made(url?: string, replace = false): Upload {
    const { name, lastModified } = this._file;
    return new Upload(this._file, {
      endpoint: address(),
      uploadUrl: url ?? null,
      chunkSize: PIECE,
      retryDelays: PAUSES,
      storeFingerprintForResuming: false, // the server lists what is unfinished
      metadata: {
        filename: name,
        folder: this._folder,
        modified: String(lastModified),
        ...(replace ? { replace: 'yes' } : {})
      },
      onBeforeRequest: authorize,
      onShouldRetry: error => {
        const status = error.originalResponse?.getStatus() ?? 0;
        return !status || (status >= 500 && status !== FULL);
      },
      onProgress: (sent, all) => this._progress(sent, all),
      onSuccess: () => {
        this._bar.value = this._bar.max;
        this._draw('done', `${bytes(this._file.size)} have arrived.`);
        this._watcher.ended();
      },
      onError: error => void told(() => this._failed(error))
    });
  }

  private async _failed(error: Error): Promise<void> {
    const response = error instanceof DetailedError ? error.originalResponse : null;
    const words = sentence(response?.getBody(), response?.getStatus() ?? 0);
    this._draw('failed', words);
    const is = error instanceof DetailedError ? error.originalRequest.getMethod() : '';
    if (is === 'POST' && response?.getStatus() === EXISTS && (await this._watcher.replace(words))) {
      this._upload = this._made(undefined, true);
      this.start();
    }
  }

  private _progress(sent: number, all: number): void {
    if (this._state !== 'going') {
      return;
    }
    const now = performance.now();
    if (!this._since) {
      [this._since, this._sinceBytes] = [now, sent];
    }
    const seconds = (now - this._since) / 1000;
    const rate = seconds > 1 ? `, ${bytes((sent - this._sinceBytes) / seconds)}/s` : '';
    this._bar.value = sent;
    write(this._words, `${bytes(sent)} of ${bytes(all)}${rate}`);
  }

  private _toggle(): void {
    if (this._state !== 'going') {
      return this.start();
    }
    void this._upload.abort();
    this._draw('paused', `Paused. ${bytes(this._bar.value)} of ${bytes(this._file.size)}.`);
  }

  private async _remove(): Promise<void> {
    if (this._state !== 'done') {
      await this._upload.abort(!!this._upload.url);
    }
    this.node.remove();
    this._watcher.removed(this);
  }

  private _draw(state: Transfer['_state'] | '', words = ''): void {
    this._state = state || this._state;
    const going = this._state === 'going';
    const text = going ? 'Pause' : this._state === 'failed' ? 'Try again' : 'Resume';
    this._pause.textContent = text;
    this._pause.setAttribute('aria-label', `${text} the upload of ${this._file.name}`);
    this._pause.hidden = this._state === 'done';
    this._cancel.textContent = this._state === 'done' ? 'Close' : 'Cancel';
    this._words.classList.toggle('portal-mod-problem', this._state === 'failed');
    write(this._words, words);
  }
}

/** Whether `item` is what has arrived of a file, as far as its name, size and time tell. */
export function sameFile(file: File, item: Unfinished): boolean {
  const { name, length, modified } = item;
  return name === file.name && length === file.size && modified === String(file.lastModified);
}

function address(id = ''): string {
  return URLExt.join(PageConfig.getBaseUrl(), 'portal/uploads', id).replace(/\/$/, '');
}

/** Sends what Jupyter's own requests have: its token, or the header that goes with its cookie. */
function authorize(request: HttpRequest): void {
  const { token } = ServerConnection.makeSettings();
  if (token) {
    request.setHeader('Authorization', `token ${token}`);
  }
  const xsrf = /(?:^|; )_xsrf=([^;]+)/.exec(document.cookie)?.[1];
  if (xsrf) {
    request.setHeader('X-XSRFToken', xsrf);
  }
}

function sentence(body: string | undefined, status: number): string {
  if (status === TAKEN) {
    return 'A file of this name exists by now. Rename or delete it, then try again.';
  }
  try {
    const { message } = JSON.parse(body || '{}') as { message?: unknown };
    if (typeof message === 'string' && message) {
      return message;
    }
  } catch {
    // such as a proxy's page
  }
  if (status === 413) {
    return 'A proxy in front of the portal refuses large requests. Tell your admin.';
  }
  return status
    ? `The server of this session answered with an error (${status}).`
    : 'The server of this session does not answer. Try again when the network is back.';
}
