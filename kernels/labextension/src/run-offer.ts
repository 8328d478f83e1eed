/** Runs of notebooks and scripts, as the session's server tells of them (portal_session.runs.lab). */
import { ask, PortalError } from './api';
import type { Field, Options } from './resources-form';

const SOON = 5000; // milliseconds: the portal may not know a new session yet
const TRIES = 12;

// As portal/handlers/runs/choices.py has them (tests/integration/kernels/test_lab_extension.py).
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

/** A parameter of a notebook: its type and usual value, as the cell has them, and its comment. */
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

/** `folder`: of the file browser; '' if it is outside of it. */
export interface StartedRun {
  id: string;
  name: string;
  points: number;
  at_once: number;
  folder: string;
  message: string;
}

/** Requests what is offered, for a minute at most; null if runs are not offered here. */
export async function findChoices(): Promise<RunChoices | null> {
  for (let tries = 1; tries <= TRIES; tries++) {
    try {
      const choices = await ask<RunChoices>('runs');
      return choices.items.length ? choices : null;
    } catch (error) {
      if (error instanceof PortalError && [403, 404].includes(error.status)) {
        return null; // a session without runs, such as a course's
      }
    }
    await new Promise(resolve => window.setTimeout(resolve, SOON));
  }
  return null;
}

/** Requests what is offered now, such as free nodes and reservations; `known` if that fails. */
export function choicesNow(known: RunChoices): Promise<RunChoices> {
  return ask<RunChoices>('runs').catch(() => known);
}

/** Returns the name for a run of the file, and its parameters. Throws PortalError. */
export function factsOf({ source, cell }: Source): Promise<SourceFacts> {
  if (cell === undefined) {
    return ask<SourceFacts>(`runs/source?path=${encodeURIComponent(source)}`);
  }
  const name = source.replace(/^.*\//, '').replace(/\.ipynb$/, '');
  return Promise.resolve({ name: `${name}-cell`, parameters: null });
}
