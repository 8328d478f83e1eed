/** Runs of notebooks and scripts, as the session's server tells of them (portal_session.runs.lab). */
import { ask, PortalError } from './api';
import type { Field, Options } from './resources-form';

const SOON = 5000; // milliseconds: the portal may not know a new session yet
const TRIES = 12;

// As portal/work/run/endpoints/choices.py has them (tests/integration/kernels/test_lab_extension.py).
export interface RunEnvironment {
  environment: string;
  title: string;
  gpu_types: string[];
  default: Options;
}

/** `points`: the maximum number of a run; `pages`: the address to which a run's id is appended. */
export interface RunChoices {
  items: RunEnvironment[];
  environment: string;
  fields: Field[];
  points: number;
  pages: string;
  simulated: boolean;
}

/** A parameter of a notebook: its type and default value, as the cell has them, and its comment. */
export interface Parameter {
  name: string;
  type: string;
  value: string;
  help: string;
}

/** `parameters`: null of a script, which takes any. */
export interface SourceFacts {
  name: string;
  parameters: Parameter[] | null;
}

/** What is run: a file of the session, by its path, or the code of one of its cells. */
export interface Source {
  source: string;
  cell?: string;
}

/** A run that has not ended: how many of its points have, and how many of those failed. */
export interface UnfinishedRun {
  id: string;
  name: string;
  points: number;
  ended: number;
  failed: number;
}

/** What the dialog shows: `runs` are those that this one can start after, the newest first. */
export interface RunOffer {
  choices: RunChoices;
  source: Source;
  facts: SourceFacts;
  runs: UnfinishedRun[];
}

/** `folder`: of the file browser; '' if it is outside of it. `after`: the name of the run before. */
export interface StartedRun {
  id: string;
  name: string;
  points: number;
  at_once: number;
  folder: string;
  message: string;
  after: string;
}

/** Requests what is offered, for a minute at most; null if runs are not offered here. */
export async function findChoices(): Promise<RunChoices | null> {
  for (let tries = 1; tries <= TRIES; tries++) {
    try {
      const choices = await ask<RunChoices>('runs');
      return choices.items.length ? choices : null;
    } catch (error) {
      if (error instanceof PortalError && [403, 404].includes(error.status)) {
        return null; // a session without runs, such as some spaces'
      }
    }
    await new Promise(resolve => window.setTimeout(resolve, SOON));
  }
  return null;
}

/**
 * Requests what is offered for `source` now, such as free nodes and reservations; `known`, and no
 * runs to start after, as far as that fails. Throws PortalError if the file cannot be run.
 */
export async function offerOf(known: RunChoices, source: Source): Promise<RunOffer> {
  const [choices, facts, { items: runs }] = await Promise.all([
    ask<RunChoices>('runs').catch(() => known),
    factsOf(source),
    ask<{ items: UnfinishedRun[] }>('runs/unfinished').catch(() => ({ items: [] }))
  ]);
  return { choices, source, facts, runs };
}

/** Returns the name for a run of the file, and its parameters. Throws PortalError. */
function factsOf({ source, cell }: Source): Promise<SourceFacts> {
  if (cell === undefined) {
    return ask<SourceFacts>(`runs/source?path=${encodeURIComponent(source)}`);
  }
  const name = source.replace(/^.*\//, '').replace(/\.ipynb$/, '');
  return Promise.resolve({ name: `${name}-cell`, parameters: null });
}

/** Returns a run and how far it is: "prepare · 2 of 6 points ended". */
export function progressOf({ name, points, ended, failed }: UnfinishedRun): string {
  const [total, done, wrong] = [points, ended, failed].map(value => value.toLocaleString('en'));
  return `${name} · ${done} of ${total} points ended${failed ? `, ${wrong} failed` : ''}`;
}
