/** Notifications: before the session's end, about idle GPUs, and announcements. */
import type { Notification, NotificationManager } from '@jupyterlab/apputils';

import type { Commands } from './commands';
import type { IdleState, Message, Situations } from './situations';
import { clock, duration } from './words';

const SEEN = 'portal:announcements-seen'; // in the browser's storage: identifiers
const LONGEST = 130; // Lab cuts a notification after 140 characters
const SAME_END = 60; // seconds: Slurm counts in minutes

type Type = Notification.TypeOptions;

/** A notification that is shown, updated and dismissed. */
class Shown {
  private _id = '';
  private _about = '';

  constructor(private readonly _manager: NotificationManager) {}

  /** Show once for each `about`, so that a closed notification stays closed. */
  show(about: string, message: string, type: Type, actions: Notification.IAction[]): void {
    if (about === this._about) {
      return;
    }
    this._about = about;
    if (this._id && this._manager.has(this._id)) {
      this._manager.update({ id: this._id, message, type, actions, autoClose: false });
    } else {
      this._id = this._manager.notify(message, type, { actions, autoClose: false });
    }
  }

  hide(): void {
    if (this._id) {
      this._manager.dismiss(this._id);
    }
    this._id = this._about = '';
  }
}

export class Notices {
  private readonly _end: Shown;
  private readonly _idle: Shown;
  private _endsAt = 0; // the end that the warnings below refer to
  private _warned = Infinity; // the smallest number of minutes that was announced
  private _savedFor = 0; // the stop before which documents were saved

  constructor(
    private readonly _manager: NotificationManager,
    private readonly _situations: Situations,
    private readonly _commands: Commands
  ) {
    this._end = new Shown(_manager);
    this._idle = new Shown(_manager);
  }

  /** Show what is due now. */
  look(): void {
    const situation = this._situations.situation;
    const now = this._situations.now;
    if (situation && now !== null) {
      this._lookAtEnd(situation.ends_at, now);
      this._lookAtIdle(situation.idle, now);
      situation.announcements
        .filter(message => message.ends_at > now)
        .forEach(message => this._announce(message));
    }
  }

  /** Dismiss the warnings before an end that has come. */
  dismiss(): void {
    this._end.hide();
    this._idle.hide();
  }

  /** Show `sentences`, a JSON list or '', about damaged files that the server has set aside. */
  tellSetAside(sentences: string): void {
    for (const text of sentences ? (JSON.parse(sentences) as string[]) : []) {
      this._manager.notify(text, 'warning', { autoClose: false });
    }
  }

  private _lookAtEnd(endsAt: number | null, now: number): void {
    if (endsAt === null) {
      return;
    }
    if (Math.abs(endsAt - this._endsAt) > SAME_END) {
      this._endsAt = endsAt;
      this._warned = Infinity;
      this._end.hide();
    }
    const left = endsAt - now;
    const { warn_minutes: minutes, extend } = this._situations.situation!;
    const due = Math.min(...minutes.filter(minute => left <= minute * 60));
    if (left <= 0 || due >= this._warned) {
      return;
    }
    this._warned = due;
    const actions = [this._action('Save all', () => void this._commands.saveAll(), true)];
    let message = `This session ends in ${duration(left)}, at ${clock(left)}.`;
    if (extend.allowed && extend.minutes.length) {
      actions.unshift(this._action('Extend', () => void this._commands.extend(), true));
    } else if (extend.reason) {
      message += ` ${extend.reason}`;
    }
    this._end.show(`${endsAt} ${due}`, this._cut(message, actions), 'warning', actions);
  }

  private _lookAtIdle(idle: IdleState, now: number): void {
    if (!idle.warned) {
      this._idle.hide();
      return;
    }
    let message =
      idle.idle_since === null
        ? 'This session’s GPUs are idle.'
        : `This session’s GPUs have been idle since ${clock(idle.idle_since - now)}.`;
    if (idle.stops_at !== null) {
      message += ` The session stops at ${clock(idle.stops_at - now)} unless they are used.`;
    }
    const actions: Notification.IAction[] = [];
    if (idle.snooze > 0) {
      actions.push(this._action('Keep session', () => void this._commands.snooze()));
    }
    this._idle.show(`stop ${idle.stops_at}`, message, 'warning', actions);
    if (idle.save_at !== null && now >= idle.save_at && this._savedFor !== idle.stops_at) {
      this._savedFor = idle.stops_at ?? 0;
      void this._commands.saveAll(true);
    }
  }

  private _announce(message: Message): void {
    const seen = this._seen();
    if (seen.includes(message.id)) {
      return;
    }
    try {
      window.localStorage.setItem(SEEN, JSON.stringify([...seen, message.id].slice(-100)));
    } catch {
      // Without storage it is shown again after a reload.
    }
    this._known.add(message.id);
    const actions: Notification.IAction[] = [];
    const text = this._cut(message.text, actions);
    const type = message.level === 'warning' ? 'warning' : 'info';
    this._manager.notify(text, type, { actions, autoClose: false });
  }

  private readonly _known = new Set<number>();

  private _seen(): number[] {
    try {
      const kept: unknown = JSON.parse(window.localStorage.getItem(SEEN) ?? '[]');
      const numbers = Array.isArray(kept) ? kept.filter(id => typeof id === 'number') : [];
      return [...new Set([...numbers, ...this._known])];
    } catch {
      return [...this._known];
    }
  }

  /** Cut to what Lab shows; the panel has the full text. */
  private _cut(text: string, actions: Notification.IAction[]): string {
    if (text.length <= LONGEST) {
      return text;
    }
    actions.push(this._action('Read all', this._commands.showPanel));
    return `${text.slice(0, LONGEST - 1)}…`;
  }

  /** `stays`: the action does not close the notification. */
  private _action(label: string, run: () => void, stays = false): Notification.IAction {
    return {
      label,
      callback: event => {
        if (stays) {
          event.preventDefault();
        }
        run();
      }
    };
  }
}
