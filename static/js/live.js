// Follows the cluster with the service's event stream, or by polling if the stream does not work.
//
// The stream brings `reset` (fetch the board), `change` (portal.models.cluster.dashboard.Changes) and `own`
// (the same, for the viewer's own items). After a break it resumes after the last event.

import { apiUrl, call, facts, loginEnded } from "./api.js";

const PATIENCE = 3; // refresh intervals without an event, or failures in a row, before polling starts
const FIRST_RETRY = 1000; // milliseconds, doubled up to LAST_RETRY
const LAST_RETRY = 15000;
const TRY_STREAM_AGAIN = 30000; // milliseconds between attempts while polling

export class Live {
  // `onReset()` fetches the board and resolves to its {stream, version}; `onChanges(changes, own)`
  // applies one change; `onState(state, message)` receives "live", "lost" or "polling", with the reason if
  // the service gives one.
  constructor({ interval, onReset, onChanges, onState }) {
    this.interval = interval * 1000;
    this.onReset = onReset;
    this.onChanges = onChanges;
    this.onState = onState;
    this.last = ""; // id of the last event
    this.failures = 0;
    this.why = ""; // the service's reason for refusing the stream
    this.queue = Promise.resolve();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.start()));
    window.addEventListener("pagehide", () => this.stop());
    window.addEventListener("pageshow", (event) => event.persisted && this.start());
  }

  async start() {
    if (this.running) return;
    this.running = true;
    this.failures = 0;
    if (!this.last) await this.#begin();
    if (this.running) this.#connect();
  }

  // Fetches the board first; the stream then resumes after its version.
  async #begin() {
    try {
      const board = await this.onReset();
      this.last = `${board.stream}-${board.version}`;
      this.onState("live", "");
    } catch (error) {
      if (!loginEnded(error)) this.onState("lost", error.message);
    }
  }

  // Closes the stream, e.g. while the page is hidden; start() resumes it.
  stop() {
    this.running = false;
    this.#close();
    clearTimeout(this.pollTimer);
    clearTimeout(this.retryTimer);
    this.polling = false;
  }

  #connect() {
    this.#close();
    const source = new EventSource(apiUrl("events", { _xsrf: facts.xsrf, last_event_id: this.last }));
    this.source = source;
    for (const name of ["reset", "change", "own"]) {
      source.addEventListener(name, (event) => this.#event(source, name, event));
    }
    source.addEventListener("error", () => this.#failed(source));
    this.#watch(source);
  }

  #close() {
    clearTimeout(this.watchdog);
    this.source?.close();
    this.source = null;
  }

  #watch(source) {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.#failed(source), PATIENCE * this.interval + 2000);
  }

  #event(source, name, event) {
    if (source !== this.source) return;
    this.#watch(source);
    this.failures = 0;
    clearTimeout(this.pollTimer);
    this.polling = false;
    // Events are processed in order: those that arrive while the board is fetched wait for it.
    this.queue = this.queue
      .then(async () => {
        if (name === "reset") {
          await this.onReset();
        } else {
          this.onChanges(JSON.parse(event.data), name === "own");
        }
        if (event.lastEventId) this.last = event.lastEventId;
        this.onState("live", "");
      })
      .catch((error) => {
        this.last = "";
        this.#failed(source, error.message);
      });
  }

  #failed(source, message = "") {
    if (source !== this.source || !this.running) return;
    this.#close();
    this.failures += 1;
    clearTimeout(this.retryTimer);
    if (this.failures >= PATIENCE) {
      this.#pollInstead();
      return;
    }
    if (this.failures === 1) {
      this.why = "";
      this.#reason().then((why) => {
        if (!why || !this.failures || !this.running) return;
        this.why = why;
        this.failures = PATIENCE;
        this.#pollInstead();
      });
    }
    this.onState("lost", message);
    const wait = Math.min(LAST_RETRY, FIRST_RETRY * 2 ** (this.failures - 1));
    this.retryTimer = setTimeout(() => this.#connect(), wait * (0.75 + Math.random() / 2));
  }

  #pollInstead() {
    this.#close();
    clearTimeout(this.retryTimer);
    this.retryTimer = setTimeout(() => this.#connect(), TRY_STREAM_AGAIN);
    if (!this.polling) {
      this.polling = true;
      this.#poll();
    }
  }

  async #poll() {
    if (!this.polling || !this.running) return;
    try {
      await this.#ask();
      if (!this.polling) return; // the stream is back
      this.onState("polling", this.why);
      if (this.away) {
        // The service was down, not only the stream: try the stream now.
        this.away = false;
        clearTimeout(this.retryTimer);
        this.#connect();
      }
    } catch (error) {
      if (!this.polling || loginEnded(error)) return;
      this.away = true;
      this.onState("lost", error.message);
    }
    clearTimeout(this.pollTimer);
    this.pollTimer = setTimeout(() => this.#poll(), this.interval);
  }

  // The service's reason for refusing a stream, e.g. too many of them; "" without one. The browser tells
  // none, so it is asked for with a request of its own.
  async #reason() {
    const request = new AbortController();
    try {
      const query = { _xsrf: facts.xsrf, last_event_id: this.last };
      const response = await fetch(apiUrl("events", query), { signal: request.signal, credentials: "same-origin" });
      return response.ok ? "" : ((await response.json()).error?.message ?? "");
    } catch {
      return "";
    } finally {
      request.abort();
    }
  }

  async #ask() {
    const [stream, version] = split(this.last);
    const answer = stream ? await call("changes", { query: { stream, version } }) : { reset: true, changes: [], own: null };
    if (!this.polling) return; // the stream is back
    if (answer.reset) {
      const board = await this.onReset();
      this.last = `${board.stream}-${board.version}`;
      return;
    }
    for (const changes of answer.changes) {
      this.onChanges(changes);
      this.last = `${changes.stream}-${changes.version}`;
    }
    if (answer.own) this.onChanges(answer.own, true);
  }
}

// "STREAM-12" is version 12 of that stream.
function split(id) {
  const at = id.lastIndexOf("-");
  return at < 0 ? ["", ""] : [id.slice(0, at), id.slice(at + 1)];
}
