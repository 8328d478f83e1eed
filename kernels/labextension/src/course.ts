/** A course in JupyterLab: raised hands, messages from its staff; in a project's session, too, access
 * of others to it. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, InputDialog, Notification, showDialog } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import { ask } from './api';
import { told } from './commands';
import { parts, situations } from './situations';
import { clock } from './words';

// As portal/models/course/live.py has them (tests/integration/kernels/test_lab_extension.py).
export interface CourseMessage {
  id: number;
  text: string;
  by: string;
  at: number;
  ends_at: number;
}

export interface Help {
  id: number;
  helper: string;
  student: string;
  state: string;
  minutes: number;
  until: number | null;
}

export interface CourseSituation {
  name: string;
  title: string;
  kind: string;
  role: string;
  messages: CourseMessage[];
  help: Help[];
  hand: string;
}

export interface ProjectSituation {
  name: string;
  title: string;
  help: Help[];
}

declare module './situations' {
  interface Situation {
    course: CourseSituation | null;
    project: ProjectSituation | null;
  }
}

const HAND = 'portal:hand';
const END_HELP = 'portal:end-help';
const SEEN = 'portal:course-messages-seen'; // in the browser's storage: identifiers
const IN_CLASS = 5; // seconds between two requests: others may be requesting access
const LINE = 34; // pixels of each line of the bar: Lab's layout asks for pixels
const LONGEST = 110; // Lab cuts a notification after 140 characters
const KINDS: { [kind: string]: string } = {
  rehearsal: 'Rehearsal: nothing is kept',
  preview: 'Preview: as a student sees it',
  room: 'Room: shared with everyone in the course'
};

parts.push({
  sound: ({ course, project }) =>
    (!course || [course.messages, course.help].every(Array.isArray)) && (!project || Array.isArray(project.help)),
  wait: ({ course, project }) => (course || project ? IN_CLASS : null)
});

/** Text for screen readers, not visible on the page. */
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

/** Item of the status bar: the kind of session, and the toggle button for the hand. */
class CourseItem extends Widget {
  private readonly _button = document.createElement('button');
  private readonly _kind = document.createElement('span');

  constructor(toggle: () => void) {
    super();
    this.addClass('portal-CourseItem');
    this.addClass('portal-BarItem');
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
    this._button.textContent = up ? 'Hand raised' : 'Raise hand';
    this._button.setAttribute('aria-pressed', String(up));
    this._button.setAttribute('aria-label', 'Raise hand: ask the course staff for help');
    this._button.title = up ? `Your hand is raised: ${course!.hand}` : 'Ask the course staff for help';
    this.toggleClass('portal-mod-warn', up);
  }
}

/** Bar at the top while others have access to the session: who, until when, and a button to end it. */
class HelpBar extends Widget {
  private _shown = '';

  constructor(private readonly _end: (help: Help) => void) {
    super();
    this.id = 'portal-help';
    this.addClass('portal-HelpBar');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'People with access to this session');
    this.hide();
  }

  /** `now`: the portal's time. `guest`: the user, if they are not the owner. */
  render(granted: Help[], guest: string, now: number): void {
    const lines = granted.filter(({ helper }) => !guest || helper === guest);
    const shown = JSON.stringify([lines, guest]);
    if (shown === this._shown) {
      return;
    }
    this._shown = shown;
    this.node.replaceChildren(...lines.map(help => this._line(help, guest, now)));
    this.node.style.minHeight = `${LINE * lines.length}px`;
    this.setHidden(!lines.length);
    this.parent?.fit();
  }

  private _line(help: Help, guest: string, now: number): HTMLElement {
    const line = document.createElement('p');
    line.textContent = guest
      ? `You are in ${help.student}’s session until ${until(help, now)}. They see this.`
      : inWords(help, now);
    if (!guest) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = `End ${noun()}`;
      button.setAttribute('aria-label', `End ${noun()}: ${help.helper} can no longer use this session`);
      button.addEventListener('click', () => this._end(help));
      line.append(' ', button);
    }
    return line;
  }
}

/** Shows messages, requests and grants once, and removes them when they end. */
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
    const help = helps().filter(({ until }) => until === null || until > now);
    const granted = help.filter(({ state }) => state === 'granted');
    this._bar.render(granted, guest, now);
    this._tell(granted, guest, now);
    if (!guest) {
      this._consent(help.find(({ state }) => state === 'asked') ?? null);
    }
    this._show((course?.messages ?? []).filter(message => message.ends_at > now));
  }

  private _tell(granted: Help[], guest: string, now: number): void {
    const ids = granted.map(({ id }) => id);
    for (const help of granted.filter(({ id }) => !this._granted.has(id))) {
      this._granted.set(help.id, help);
      if (!guest) {
        this._voice.say(inWords(help, now));
      }
    }
    for (const [id, { helper }] of [...this._granted].filter(([id]) => !ids.includes(id))) {
      this._granted.delete(id);
      const words = guest ? `${noun() === 'help' ? 'Help' : 'Your visit'} has ended.` : `${helper} can no longer use this session.`;
      this._voice.say(words);
      Notification.info(words, { autoClose: 8000 });
    }
  }

  /** One dialog at a time; it closes when the request is withdrawn. */
  private _consent(help: Help | null): void {
    if (this._asking && this._asking.id !== help?.id) {
      this._asking.dialog.dispose();
      this._asking = null;
    }
    if (!help || this._asking) {
      return;
    }
    const body = document.createElement('div');
    const project = situations.situation?.project ?? null;
    body.textContent = project
      ? `${help.helper}, a member of the project ${project.title}, asks to see and use this session for ` +
        `${help.minutes} minutes. They act as you: with your notebooks and terminals, your home folder and your ` +
        'keys, and what they start or change stays. You can end this at any time.'
      : `${help.helper}, who teaches this course, asks to see and use this session with you for ` +
        `${help.minutes} minutes: its notebooks, files and terminals. You can end this at any time.`;
    // A user who is typing may press Enter: that must not grant access.
    const dialog = new Dialog({
      title: project ? `${help.helper} asks to open this session` : `${help.helper} offers help`,
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
          // The next request may have come meanwhile.
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
      if (!messages.some(message => message.id === id)) {
        this._messages.delete(id);
        manager.dismiss(shown);
      }
    }
    const seen = seenMessages();
    for (const message of messages.filter(({ id }) => !this._messages.has(id) && !seen.includes(id))) {
      const whole = `${message.by}: ${message.text}`;
      const actions: Notification.IAction[] = [];
      if (whole.length > LONGEST) {
        actions.push({ label: 'Read all', callback: () => void readAll(message) });
      }
      const text = actions.length ? `${whole.slice(0, LONGEST - 1)}…` : whole;
      this._messages.set(message.id, manager.notify(text, 'info', { actions, autoClose: false }));
      this._voice.say(whole);
      keepSeen([...seen, ...this._messages.keys()]);
    }
  }
}

/** Requests for access to this session, and what was granted. */
function helps(): Help[] {
  const { course, project } = situations.situation ?? {};
  return course?.help ?? project?.help ?? [];
}

/** What access is called here. */
function noun(): string {
  return situations.situation?.course ? 'help' : 'visit';
}

function mayRaise(course: CourseSituation | null): boolean {
  return course?.kind === 'course';
}

/** In the time of the user's own clock. */
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
      label: 'What do you need help with? (optional)',
      okLabel: 'Ask for help'
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
    return Array.isArray(kept) ? kept.filter(id => typeof id === 'number') : [];
  } catch {
    return [];
  }
}

function keepSeen(ids: number[]): void {
  try {
    window.localStorage.setItem(SEEN, JSON.stringify([...new Set(ids)].slice(-100)));
  } catch {
    // Without storage, the messages are shown again after a reload.
  }
}

const course: JupyterFrontEndPlugin<void> = {
  id: '@data-scientist-portal/session:course',
  description: 'Courses: raised hands, messages from the staff, and help in this session',
  autoStart: true,
  optional: [IStatusBar, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    statusBar: IStatusBar | null,
    palette: ICommandPalette | null
  ) => {
    const ofCourse = (): CourseSituation | null => situations.situation?.course ?? null;
    const granted = (): Help[] =>
      situations.guest ? [] : helps().filter(({ state }) => state === 'granted');
    app.commands.addCommand(HAND, {
      label: () => (ofCourse()?.hand ? 'Portal: Lower hand' : 'Portal: Raise hand'),
      isVisible: () => mayRaise(ofCourse()) && !situations.guest,
      isToggled: () => !!ofCourse()?.hand,
      execute: toggleHand
    });
    app.commands.addCommand(END_HELP, {
      label: () => `Portal: End ${noun()} in this session`,
      isVisible: () => granted().length > 0,
      execute: () => Promise.all(granted().map(help => reply(help, 'end')))
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
