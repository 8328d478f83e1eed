/** The dialog for a run: name, parameters, environment and resources of each point. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { Styling } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { ask, PortalError } from './api';
import { CLASSES } from './resources';
import { type Answer, type Options, ResourcesForm } from './resources-form';
import { progressOf } from './run-offer';
import type { RunEnvironment, RunOffer, Source, StartedRun } from './run-offer';
import { Parameters } from './run-parameters';
import { input, Row, select } from './run-row';

const PAUSE = 400; // milliseconds from the last change to the request for the number of points
const AT_ONCE = 10;

/** A request as the session's server takes it (portal_session.runs.request). */
interface RunRequest extends Source {
  name: string;
  values: { [name: string]: string };
  file: string;
  sample: string | null;
  seed: string | null;
  at_once: string | null;
  ranks: string | null;
  after: string;
  environment: string;
  resources: Options;
}

/** Asks for a run of the offer's source, and starts it; null if the dialog was cancelled. */
export async function startRun(offer: RunOffer): Promise<StartedRun | null> {
  const id = newId(); // sent each time: whatever happens to the answers, the run starts once
  let body = new Body(offer);
  for (;;) {
    const answer = await showDialog({
      title: offer.source.cell === undefined ? 'Run as job' : 'Run cell as job',
      body,
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Start run' })],
      focusNodeSelector: 'input'
    });
    if (!answer.button.accept || !answer.value) {
      return null;
    }
    const starting = Notification.emit('The run is being started…', 'in-progress', {
      autoClose: false
    });
    try {
      return await ask<StartedRun>('runs', { ...answer.value, id });
    } catch (error) {
      body = new Body(offer, answer.value, unanswered(error));
    } finally {
      Notification.dismiss(starting);
    }
  }
}

class Body extends Widget implements Dialog.IBodyWidget<RunRequest> {
  private readonly _name: Row;
  private readonly _parameters: Parameters;
  private readonly _file: Row;
  private readonly _sample: Row;
  private readonly _seed: Row;
  private readonly _atOnce: Row;
  private readonly _ranks: Row | null = null; // of a notebook, and of a space
  private readonly _after: Row | null = null; // without another run
  private readonly _environment: Row;
  private readonly _alert = paragraph('', 'alert');
  private readonly _points = paragraph('', 'status');
  private _shown: HTMLElement = document.createElement('div'); // the form's node
  private _form!: ResourcesForm;
  private _timer = 0;
  private _asked = 0;

  /** `now`: what was chosen before; `_refused`: why that was, shown until something is changed. */
  constructor(
    private readonly _offer: RunOffer,
    now?: RunRequest,
    private _refused: unknown = null
  ) {
    super();
    this.addClass('portal-Resources');
    this.addClass('portal-Run');
    this._points.className = 'portal-mod-points';
    const { choices, source, facts, runs } = _offer;
    const isCell = source.cell !== undefined;
    this._name = new Row('Name', input(now?.name ?? facts.name));
    this._parameters = new Parameters(facts.parameters, isCell, now?.values ?? {});
    const path = 'Path relative to the folder of the file, or absolute. CSV or a JSON list.';
    this._file = new Row('List of points', input(now?.file ?? '', 'points.csv'), path);
    const random = 'Number of combinations, chosen at random.';
    this._sample = new Row('Sample', input(now?.sample ?? '', 'all', 1), random);
    this._seed = new Row('Seed', input(now?.seed ?? '', 'random', 0));
    this._atOnce = new Row('Points at once', input(now?.at_once ?? String(AT_ONCE), '', 1));
    const nodes = choices.fields.some(({ name }) => name === 'nodes');
    if (nodes && (isCell || source.source.endsWith('.py'))) {
      const together =
        'Processes that execute the script together. Empty: one for each GPU if there are several ' +
        'nodes, else one.';
      this._ranks = new Row('Ranks on each node', input(now?.ranks ?? '', '', 1), together);
    }
    if (runs.length) {
      const others = runs.map((run): [string, string] => [run.id, progressOf(run)]);
      const control = select([['', 'Any time'], ...others], now?.after);
      this._after = new Row('Start after', control, 'Once all points of that run have succeeded.');
    }
    const own = choices.environment;
    const environments = choices.items.map(({ environment: name, title }): [string, string] => {
      return [name, name === own ? `${title} (this session’s)` : title];
    });
    this._environment = new Row('Environment', select(environments, now?.environment ?? own));
    const more = document.createElement('details');
    const summary = document.createElement('summary');
    summary.textContent = 'List or sample';
    more.open = !!(now?.file || now?.sample);
    more.append(summary, this._file.node, this._sample.node, this._seed.node);
    this.node.append(
      this._alert,
      paragraph(`${isCell ? 'The cell of ' : ''}${source.source}`),
      this._name.node,
      this._parameters.node,
      more,
      this._atOnce.node,
      ...(this._ranks ? [this._ranks.node] : []),
      ...(this._after ? [this._after.node] : []),
      this._environment.node,
      this._shown,
      ...(choices.simulated ? [paragraph('The GPUs of this cluster are simulated.')] : []),
      this._points
    );
    this._showForm(now?.resources);
    this._environment.control.addEventListener('change', () => {
      this._showForm();
      Styling.styleNode(this._form.node);
    });
    this.node.addEventListener('input', () => {
      this._refused = null;
      this._changed();
    });
    this._show(_refused);
    this._changed(0);
  }

  getValue(): RunRequest {
    const sample = this._sample.value || null;
    return {
      ...this._offer.source,
      name: this._name.value,
      values: this._parameters.values,
      file: this._file.value,
      sample,
      seed: sample && (this._seed.value || null),
      at_once: this._atOnce.value || null,
      ranks: this._ranks?.value || null,
      after: this._after?.value ?? '',
      environment: this._chosen.environment,
      resources: this._form.value
    };
  }

  dispose(): void {
    window.clearTimeout(this._timer);
    this._asked += 1;
    this._form.dispose();
    super.dispose();
  }

  private get _chosen(): RunEnvironment {
    return this._offer.choices.items[(this._environment.control as HTMLSelectElement).selectedIndex];
  }

  /** The fields of the selected environment, with its default resources or those of `chosen`. */
  private _showForm(chosen?: Options): void {
    const { environment, gpu_types: types, default: options } = this._chosen;
    const fields = this._offer.choices.fields.map(field =>
      field.name === 'gpu_type' ? { ...field, values: types } : field
    );
    const estimate = async (asked: Options): Promise<Answer> => {
      const answer = await ask<Answer>('runs/estimate', { options: { ...asked, environment } });
      return answer.field ? answer : { ...answer, words: `First point: ${answer.words}` };
    };
    this._form?.dispose();
    const before = { busy: null, options, fields, kept: [] };
    this._form = new ResourcesForm(before, estimate, CLASSES, chosen ?? options, false);
    this._shown.replaceWith(this._form.node);
    this._shown = this._form.node;
  }

  private _changed(pause = PAUSE): void {
    (this._seed.control as HTMLInputElement).disabled = !this._sample.value;
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => void this._count(), pause);
  }

  /** Asks for the number of points, which is also the check of all fields but the resources. */
  private async _count(): Promise<void> {
    const asked = ++this._asked;
    const { resources, ...request } = this.getValue();
    try {
      const { points } = await ask<{ points: number }>('runs/points', request);
      if (asked === this._asked) {
        this._show(this._refused);
        this._points.textContent = this._words(points);
      }
    } catch (error) {
      if (asked === this._asked) {
        this._show(error);
        this._points.textContent = '';
      }
    }
  }

  private _words(points: number): string {
    const most = this._offer.choices.points;
    if (points > most) {
      return `${number(points)} points; the limit of this site is ${number(most)}. Set fewer values.`;
    }
    const atOnce = Math.min(points, Number(this._atOnce.value) || AT_ONCE);
    return points === 1 ? '1 point' : `${number(points)} points, at most ${number(atOnce)} at once`;
  }

  /** Shows the error beside its field, or above all; null: nothing is wrong. */
  private _show(error: unknown): void {
    const field = error instanceof PortalError ? error.field : '';
    const rows: { [field: string]: Row } = {
      name: this._name,
      file: this._file,
      sample: this._sample,
      seed: this._seed,
      at_once: this._atOnce,
      ...(this._ranks && { ranks: this._ranks }),
      ...(this._after && { after: this._after }),
      environment: this._environment
    };
    const wrong = field.startsWith('values:')
      ? this._parameters.row(field.slice('values:'.length))
      : rows[field];
    const words = error instanceof Error ? error.message : error ? String(error) : '';
    for (const row of [...Object.values(rows), ...this._parameters.rows]) {
      row.show(row === wrong ? words : '');
    }
    this._alert.textContent = wrong || this._form.refuse(field, words) ? '' : words;
    this._alert.hidden = !this._alert.textContent;
    const folded = wrong?.node.closest('details');
    if (folded) {
      folded.open = true;
    }
  }
}

/** A new id of a run. (`crypto.randomUUID` is only there with HTTPS.) */
function newId(): string {
  const bytes = Array.from(crypto.getRandomValues(new Uint8Array(16)));
  return bytes.map(byte => byte.toString(16).padStart(2, '0')).join('');
}

/** The error of a request to start, with what to do if its answer was lost. */
function unanswered(error: unknown): unknown {
  if (!(error instanceof PortalError) || (error.status > 0 && error.status < 500)) {
    return error;
  }
  const words = 'Whether the run has started is not known. Press “Start run” again: it starts only once.';
  return new PortalError(`${error.message} ${words}`, error.status, error.field);
}

function number(value: number): string {
  return value.toLocaleString('en');
}

function paragraph(text: string, role = ''): HTMLElement {
  const made = document.createElement('p');
  made.textContent = text;
  if (role) {
    made.setAttribute('role', role);
  }
  made.hidden = role === 'alert';
  return made;
}
