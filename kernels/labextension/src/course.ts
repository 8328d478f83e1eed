/** A course in JupyterLab: the raised hand, messages of its staff, and who may be in this session. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, InputDialog, Notification, showDialog } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import { ask } from './api';
import { told } from './commands';
import { type CourseMessage, type CourseSituation, type Help, situations } from './situations';
import { clock } from './words';

const HAND = 'portal:hand';
const END_HELP = 'portal:end-help';
const SEEN = 'portal:course-messages-seen'; // in the browser's storage: identifiers
const LINE = 34; // pixels of each line of the bar: Lab's layout asks for pixels
const LONGEST = 110; // Lab cuts a notification after 140 characters
const KINDS: { [kind: string]: string } = {
  rehearsal: 'Rehearsal: nothing here is kept',
  preview: 'Preview: as a student sees it',
  room: 'Room: shared with everyone in the course'
};

/** Read out by screen readers; on no page that anybody sees. */
class Voice {
  private readonly _node = document.createElement('div');

  constructor() {
    this._node.className = 'portal-Voice';
    this._node.setAttribute('role', 'status');
    this._node.setAttribute('aria-live', 'assertive');
    document.body.append(this._node);
  }

  say(words: string): void {
    this._node.textContent = words;
  }
}

/** The hand, a button that is pressed or not, and what kind of session this is. */
class CourseItem extends Widget {
  private readonly _button = document.createElement('button');
  private readonly _kind = document.createElement('span');

  constructor(toggle: () => void) {
    super();
    this.addClass('portal-CourseItem');
    this._button.type = 'button';
    this._button.addEventListener('click', toggle);
    this.node.append(this._kind, this._button);
    this.render(null);
  }

  render(course: CourseSituation | null): void {
    const up = !!course?.hand;
    const words = KINDS[course?.kind ?? ''] ?? '';
    this.setHidden(!course || (!words && !mayRaise(course)));
    this._kind.textContent = course && words ? `${course.title} · ${words}` : '';
    this._button.hidden = !mayRaise(course);
    this._button.textContent = up ? 'Hand is up' : 'Raise hand';
    this._button.setAttribute('aria-pressed', String(up));
    this._button.setAttribute('aria-label', 'Raise hand: ask the staff of the course for help');
    this._button.title = up ? `Your hand is up: ${course!.hand}` : 'Ask the staff of the course';
    this.toggleClass('portal-mod-warn', up);
  }
}

/** While somebody else may be in: who, until when, and its end. Above everything else. */
class HelpBar extends Widget {
  private _shown = '';

  constructor(private readonly _end: (help: Help) => void) {
    super();
    this.id = 'portal-help';
    this.addClass('portal-HelpBar');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Who is in this session');
    this.hide();
  }

  /** `now`: the portal's time. `guest`: who looks, where it is not the owner. */
  render(granted: Help[], guest: string, now: number): void {
    const lines = granted.filter(one => !guest || one.helper === guest);
    const shown = JSON.stringify([lines, guest]);
    if (shown === this._shown) {
      return;
    }
    this._shown = shown;
    this.node.replaceChildren(...lines.map(one => this._line(one, guest, now)));
    this.node.style.minHeight = `${LINE * lines.length}px`;
    this.setHidden(!lines.length);
    this.parent?.fit();
  }

  private _line(help: Help, guest: string, now: number): HTMLElement {
    const line = document.createElement('p');
    line.textContent = guest
      ? `You are in ${help.student}’s session until ${until(help, now)}. They see that you are here.`
      : inWords(help, now);
    if (!guest) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = 'End';
      button.setAttribute('aria-label', `End: ${help.helper} can no longer use this session`);
      button.addEventListener('click', () => this._end(help));
      line.append(' ', button);
    }
    return line;
  }
}

/** What is due now is shown once, and taken away when it is over. */
class CoursePage {
  private readonly _voice = new Voice();
  private readonly _messages = new Map<number, string>(); // to the notification's id
  private readonly _granted = new Map<number, Help>();
  private _asking: { id: number; dialog: Dialog<unknown> } | null = null;

  constructor(
    private readonly _item: CourseItem,
    private readonly _bar: HelpBar
  ) {}

  look(): void {
    const { situation, now, guest } = situations;
    const course = situation?.course ?? null;
    this._item.render(guest ? null : course);
    if (!situation || now === null) {
      return;
    }
    const help = (course?.help ?? []).filter(one => one.until === null || one.until > now);
    const granted = help.filter(one => one.state === 'granted');
    this._bar.render(granted, guest, now);
    this._tell(granted, guest, now);
    if (!guest) {
      this._consent(help.find(one => one.state === 'asked') ?? null);
    }
    this._show((course?.messages ?? []).filter(one => one.ends_at > now));
  }

  private _tell(granted: Help[], guest: string, now: number): void {
    const ids = granted.map(one => one.id);
    for (const one of granted.filter(({ id }) => !this._granted.has(id))) {
      this._granted.set(one.id, one);
      if (!guest) {
        this._voice.say(inWords(one, now));
      }
    }
    for (const [id, one] of [...this._granted].filter(([id]) => !ids.includes(id))) {
      this._granted.delete(id);
      const words = guest ? 'The help is over.' : `${one.helper} can no longer use this session.`;
      this._voice.say(words);
      Notification.info(words, { autoClose: 8000 });
    }
  }

  /** One question at a time; it goes away when it is no longer asked. */
  private _consent(help: Help | null): void {
    if (this._asking && this._asking.id !== help?.id) {
      this._asking.dialog.dispose();
      this._asking = null;
    }
    if (!help || this._asking) {
      return;
    }
    const body = document.createElement('div');
    body.textContent =
      `${help.helper}, who teaches this course, would like to see and use this session with you ` +
      `for ${help.minutes} minutes: its notebooks, files and terminals. You can end it at any time.`;
    // Who is typing presses Enter: that must not let anybody in.
    const dialog = new Dialog({
      title: `${help.helper} offers help`,
      body: new Widget({ node: body }),
      buttons: [Dialog.cancelButton({ label: 'Refuse' }), Dialog.okButton({ label: 'Agree' })],
      defaultButton: 0,
      hasClose: false
    });
    this._asking = { id: help.id, dialog };
    this._voice.say(body.textContent);
    void dialog.launch().then(({ button }) => {
      if (this._asking?.dialog === dialog) {
        void reply(help, button.accept ? 'agree' : 'refuse').finally(() => {
          // The next question may have come meanwhile.
          if (this._asking?.dialog === dialog) {
            this._asking = null;
          }
        });
      }
    }, () => undefined);
  }

  private _show(messages: CourseMessage[]): void {
    const manager = Notification.manager;
    for (const [id, shown] of this._messages) {
      if (!messages.some(one => one.id === id)) {
        this._messages.delete(id);
        manager.dismiss(shown);
      }
    }
    const seen = seenMessages();
    for (const one of messages.filter(({ id }) => !this._messages.has(id) && !seen.includes(id))) {
      const whole = `${one.by}: ${one.text}`;
      const actions: Notification.IAction[] = [];
      if (whole.length > LONGEST) {
        actions.push({ label: 'Read all', callback: () => void readAll(one) });
      }
      const text = actions.length ? `${whole.slice(0, LONGEST - 1)}…` : whole;
      this._messages.set(one.id, manager.notify(text, 'info', { actions, autoClose: false }));
      this._voice.say(whole);
      keepSeen([...seen, ...this._messages.keys()]);
    }
  }
}

function mayRaise(course: CourseSituation | null): boolean {
  return course?.kind === 'course';
}

/** The person's own clock shows it. */
function until(help: Help, now: number): string {
  return clock((help.until ?? now) - now);
}

function inWords(help: Help, now: number): string {
  return `${help.helper} can see and use this session until ${until(help, now)}.`;
}

async function reply(help: Help, answer: 'agree' | 'refuse' | 'end'): Promise<void> {
  await told(() => ask('help', { id: help.id, answer }));
  await situations.refresh();
}

async function readAll(message: CourseMessage): Promise<void> {
  const body = document.createElement('div');
  body.className = 'portal-Message';
  body.textContent = message.text;
  const buttons = [Dialog.okButton({ label: 'Close' })];
  await showDialog({ title: `From ${message.by}`, body: new Widget({ node: body }), buttons });
}

async function toggleHand(): Promise<void> {
  const course = situations.situation?.course ?? null;
  if (!mayRaise(course) || situations.guest) {
    return;
  }
  if (course!.hand) {
    await told(() => ask('hand', undefined, 'DELETE'));
  } else {
    const { button, value } = await InputDialog.getText({
      title: 'Raise hand',
      label: 'What is it about? (It may stay empty.)',
      okLabel: 'Raise'
    });
    if (!button.accept) {
      return;
    }
    await told(() => ask('hand', { text: (value ?? '').slice(0, 300) }));
  }
  await situations.refresh();
}

function seenMessages(): number[] {
  try {
    const kept: unknown = JSON.parse(window.localStorage.getItem(SEEN) ?? '[]');
    return Array.isArray(kept) ? kept.filter(one => typeof one === 'number') : [];
  } catch {
    return [];
  }
}

function keepSeen(ids: number[]): void {
  try {
    window.localStorage.setItem(SEEN, JSON.stringify([...new Set(ids)].slice(-100)));
  } catch {
    // A browser that keeps nothing shows them again after a reload.
  }
}

const course: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:course',
  description: 'A course: the raised hand, messages of its staff, and help in this session',
  autoStart: true,
  optional: [IStatusBar, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    statusBar: IStatusBar | null,
    palette: ICommandPalette | null
  ) => {
    const ofCourse = (): CourseSituation | null => situations.situation?.course ?? null;
    const granted = (): Help[] =>
      situations.guest ? [] : (ofCourse()?.help ?? []).filter(one => one.state === 'granted');
    app.commands.addCommand(HAND, {
      label: () => (ofCourse()?.hand ? 'Portal: Lower hand' : 'Portal: Raise hand'),
      isVisible: () => mayRaise(ofCourse()) && !situations.guest,
      isToggled: () => !!ofCourse()?.hand,
      execute: toggleHand
    });
    app.commands.addCommand(END_HELP, {
      label: 'Portal: End help in this session',
      isVisible: () => granted().length > 0,
      execute: () => Promise.all(granted().map(one => reply(one, 'end')))
    });
    app.commands.addKeyBinding({ command: HAND, keys: ['Alt Shift H'], selector: 'body' });
    for (const command of [HAND, END_HELP]) {
      palette?.addItem({ command, category: 'Portal' });
    }
    const bar = new HelpBar(help => void reply(help, 'end'));
    app.shell.add(bar, 'header', { rank: 0 });
    const item = new CourseItem(() => void app.commands.execute(HAND));
    statusBar?.registerStatusItem(course.id, { item, align: 'left', rank: 900 });
    const page = new CoursePage(item, bar);
    const look = (): void => {
      page.look();
      app.commands.notifyCommandChanged(HAND);
      app.commands.notifyCommandChanged(END_HELP);
    };
    situations.changed.connect(look);
    window.setInterval(() => page.look(), 5000);
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [course as JupyterFrontEndPlugin<unknown>];

export default plugins;
