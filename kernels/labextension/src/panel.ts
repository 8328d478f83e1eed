/** Content of the side panel; loaded when it is first opened. Text only, no markup. */
import { Plot, type Point } from './plot';
import { type Commands, panelCommands } from './commands';
import { button, element, write } from './elements';
import { type Reading, seconds, type Situation, type Situations } from './situations';
import { clock, duration, hasGpus, memory, percent, timeLeft, UNKNOWN } from './words';

const LINKS: [string, string][] = [
  ['session', 'This session in the portal'],
  ['launch', 'Launch again with other resources'],
  ['cluster', 'Cluster']
];
const TICK = 5000; // milliseconds
const IDLE_SHOWN = 300; // seconds of idle GPUs before the panel shows them

type Draw = (situations: Situations) => void;

export class Panel {
  private readonly _draw: Draw[] = [];

  /** Fill `node`, and update it while `visible()`. */
  constructor(
    node: HTMLElement,
    situations: Situations,
    private readonly _commands: Commands,
    visible: () => boolean
  ) {
    node.append(
      element('h2', 'This session'),
      this._line('p', 'portal-mod-problem', ({ problem }) =>
        problem ? `${problem.words} Since ${clock(-problem.since)}.` : ''
      ),
      this._facts(),
      this._buttons(),
      this._line('p', '', ({ situation }) =>
        situation && !situation.extend.allowed ? situation.extend.reason : ''
      ),
      this._meters(),
      this._line('p', 'portal-mod-hint', ({ situation }) => situation?.hint ?? ''),
      this._idle(),
      this._line('p', '', ({ situation }) => situation?.move?.words ?? ''),
      this._announcements(),
      this._links()
    );
    const draw = (): void => {
      if (visible()) {
        this._draw.forEach(draw => draw(situations));
      }
    };
    draw();
    situations.changed.connect(draw);
    window.setInterval(draw, TICK);
  }

  /** An element whose text changes; hidden while there is none. */
  private _line(
    tag: keyof HTMLElementTagNameMap,
    className: string,
    words: (situations: Situations) => string
  ): HTMLElement {
    const node = element(tag, '', className);
    this._draw.push(situations => write(node, words(situations)));
    return node;
  }

  private _facts(): HTMLElement {
    const list = element('dl');
    const fact = (name: string, words: (found: Situation, all: Situations) => string): void => {
      const term = element('dt', name);
      const text = this._line('dd', '', all =>
        all.situation ? words(all.situation, all) : UNKNOWN
      );
      list.append(term, text);
      this._draw.push(() => (term.hidden = text.hidden));
    };
    fact('Time', (_, all) => {
      const end = all.left === null || all.left <= 0 ? '' : `, until ${clock(all.left)}`;
      return timeLeft(all.left) + end;
    });
    fact('Environment', found => found.environment_title || found.environment);
    fact('Node', found => `${found.node || UNKNOWN}, job ${found.job_id}`);
    fact('Resources', found => {
      const count = found.gpus.length;
      const type = found.gpu_type || found.gpus[0]?.type || '';
      const gpus = count ? `${count} ${count === 1 ? 'GPU' : 'GPUs'} ${type}`.trim() : '';
      const parts = [gpus, `${found.cpus} ${found.cpus === 1 ? 'CPU' : 'CPUs'}`];
      if (found.memory !== null) {
        parts.push(`${memory(found.memory, null)} of memory`);
      }
      return parts.filter(part => part).join(', ');
    });
    return list;
  }

  private _buttons(): HTMLElement {
    const row = element('div', '', 'portal-Buttons');
    const extend = button('Extend…', () => void this._commands.extend());
    this._draw.push(({ situation }) => (extend.disabled = !situation?.extend.allowed));
    row.append(
      extend,
      button('Save all', () => void this._commands.saveAll())
    );
    const { registry } = this._commands;
    for (const id of panelCommands.filter(id => registry.hasCommand(id))) {
      const more = button(registry.label(id).replace('Portal: ', ''), () => void registry.execute(id));
      this._draw.push(() => (more.disabled = !registry.isEnabled(id)));
      row.append(more);
    }
    const stop = button('Stop…', () => void this._commands.stop());
    this._draw.push(({ guest }) => (stop.hidden = !!guest));
    row.append(stop);
    return row;
  }

  private _meters(): HTMLElement {
    const box = element('div');
    const busy = this._meter(
      'GPU',
      reading => reading.busy,
      () => 100,
      percent,
      reading => `${percent(reading?.busy ?? null)} busy`
    );
    const gpuMemory = this._memoryMeter('GPU memory', 'gpuMemory', 'gpuMemoryTotal');
    const host = this._memoryMeter('Memory', 'memory', 'memoryLimit');
    const each = element('ul', '', 'portal-Gpus');
    box.append(busy, gpuMemory, each, host);
    this._draw.push(({ situation, reading }) => {
      busy.hidden = gpuMemory.hidden = !hasGpus(situation, reading);
      const gpus = reading?.gpus ?? [];
      each.hidden = gpus.length < 2;
      each.replaceChildren(
        ...gpus.map(gpu => {
          const used = memory(gpu.memory_used, gpu.memory_total);
          return element('li', `GPU ${gpu.index}: ${percent(gpu.utilization)} busy, ${used}`);
        })
      );
    });
    return box;
  }

  private _memoryMeter(
    name: string,
    used: 'gpuMemory' | 'memory',
    total: 'gpuMemoryTotal' | 'memoryLimit'
  ): HTMLElement {
    return this._meter(
      name,
      reading => reading[used],
      reading => reading[total],
      edge => memory(edge, null),
      reading => memory(reading?.[used] ?? null, reading?.[total] ?? null)
    );
  }

  /** A value now and in the last hour. */
  private _meter(
    name: string,
    value: (reading: Reading) => number | null,
    top: (reading: Reading) => number | null,
    scale: (edge: number) => string,
    words: (now: Reading | null) => string
  ): HTMLElement {
    const box = element('section', '', 'portal-Meter');
    const plot = new Plot();
    const title = this._line('h3', '', ({ reading }) => {
      const made = reading?.simulated && name.startsWith('GPU') ? ' (simulated)' : '';
      return `${name}${made}: ${words(reading)}`;
    });
    const axis = element('p', '', 'portal-mod-axis');
    box.append(title, plot.node, axis);
    this._draw.push(({ history }) => {
      const points: Point[] = history.map(reading => ({ time: reading.time, value: value(reading) }));
      const known = points.map(point => point.value).filter(number => number !== null);
      const edge = Math.max(...history.map(reading => top(reading) ?? 0), ...known, 1);
      write(axis, `the last hour, 0 to ${scale(edge)}`);
      const share = known.length ? `between ${range(known, edge)} of the limit` : UNKNOWN;
      plot.draw(points, edge, seconds(), `${name} in the last hour: ${share}`);
    });
    return box;
  }

  private _idle(): HTMLElement {
    const box = element('section');
    const snooze = button('Keep session', () => void this._commands.snooze());
    const text = this._line('p', '', ({ situation, now, left }) => {
      const idle = situation?.idle;
      if (!idle || now === null || idle.mode === 'off') {
        return '';
      }
      if (idle.exempt || idle.snoozed_until !== null || idle.idle_since === null) {
        const until = (idle.snoozed_until ?? 0) - now;
        return idle.exempt || (until > 0 ? `Snoozed until ${clock(until)}.` : '');
      }
      const since = `The GPUs have been idle for ${duration(Math.max(0, now - idle.idle_since))}.`;
      const ahead = (idle.stops_at ?? now) - now;
      if (!idle.warned && now - idle.idle_since < IDLE_SHOWN) {
        return '';
      }
      return ahead > 0 && ahead < (left ?? Infinity) ? `${since} The session stops at ${clock(ahead)} unless they are used.` : since;
    });
    box.append(text, snooze);
    this._draw.push(({ situation }) => {
      snooze.hidden = !situation?.idle.warned || situation.idle.snooze <= 0;
      box.hidden = text.hidden && snooze.hidden;
    });
    return box;
  }

  private _announcements(): HTMLElement {
    const box = element('section');
    const list = element('ul');
    box.append(element('h3', 'Announcements'), list);
    this._draw.push(({ situation, now }) => {
      const due = (situation?.announcements ?? []).filter(message => message.ends_at > (now ?? 0));
      box.hidden = !due.length;
      list.replaceChildren(...due.map(message => element('li', message.text)));
    });
    return box;
  }

  private _links(): HTMLElement {
    const list = element('ul', '', 'portal-Links');
    let shown = '';
    this._draw.push(situations => {
      const links = LINKS.map(([name]) => situations.link(name));
      // Only rebuilt when changed: otherwise the focused link loses the focus.
      if (JSON.stringify(links) === shown) {
        return;
      }
      shown = JSON.stringify(links);
      const items = LINKS.map(([, words], at) => links[at] && link(words, links[at]));
      list.replaceChildren(...items.filter(item => item !== null && item !== ''));
      list.hidden = !list.children.length;
    });
    return list;
  }
}

function link(text: string, to: string): HTMLElement {
  const [item, anchor] = [element('li'), element('a', text)];
  anchor.href = to;
  anchor.target = '_blank';
  anchor.rel = 'noopener';
  item.append(anchor);
  return item;
}

function range(values: number[], top: number): string {
  const share = (value: number): string => `${Math.round((value / top) * 100)} %`;
  return `${share(Math.min(...values))} and ${share(Math.max(...values))}`;
}
