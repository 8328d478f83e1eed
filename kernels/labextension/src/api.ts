/** Requests to the session's own server, below its `portal/` (portal_session.situation). */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

/**
 * An error with a sentence for the user. `status`: the HTTP status; 0: no answer. `field`: the
 * field of a dialog that is wrong, if the server says so.
 */
export class PortalError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly field = ''
  ) {
    super(message);
    this.name = 'PortalError';
  }
}

/**
 * Returns the server's JSON answer to `method` on `<base_url>portal/<path>`.
 *
 * `body` is sent as JSON; with a body, the default method is POST. Jupyter's own token, cookie
 * and XSRF header are sent. Throws PortalError.
 */
export async function ask<T>(
  path: string,
  body?: unknown,
  method: 'GET' | 'POST' | 'DELETE' = body === undefined ? 'GET' : 'POST'
): Promise<T> {
  const settings = ServerConnection.makeSettings();
  const url = URLExt.join(settings.baseUrl, 'portal', path);
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
  }
  let response: Response;
  try {
    response = await ServerConnection.makeRequest(url, init, settings);
  } catch {
    throw new PortalError('The server of this session does not answer.', 0);
  }
  let answer: unknown = null;
  try {
    const text = await response.text();
    answer = text ? JSON.parse(text) : null;
  } catch {
    if (response.ok) {
      throw new PortalError('The answer of this session’s server cannot be read.', response.status);
    }
  }
  if (!response.ok) {
    const { field } = (answer ?? {}) as { field?: unknown };
    throw new PortalError(
      sentence(answer, response.status),
      response.status,
      typeof field === 'string' ? field : ''
    );
  }
  return answer as T;
}

function sentence(answer: unknown, status: number): string {
  const message = (answer as { message?: unknown } | null)?.message;
  return typeof message === 'string' && message
    ? message
    : `The server of this session answered with an error (${status}).`;
}
