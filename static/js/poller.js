// Repeats a request: one at a time, and none while the page is hidden.

import { loginEnded } from "./api.js";

export class Poller {
  #timer = 0; // of the next request; 0: none is scheduled
  #running = null; // a promise that resolves with the response
  #again = false; // another request is wanted after this one
  #due = false; // a request was due while the page was hidden
  #over = false;

  // `ask()` requests and shows data. It may resolve to the milliseconds until the next request (default:
  // `every`), or to null to stop. `onTrouble(error)` receives its errors: after a 403 or 404 polling
  // stops, and after an expired login the page is reloaded. Without it, errors are ignored and polling
  // continues. `unseen`: also poll while the page is hidden.
  /** @param {{every: number, ask: () => any, onTrouble?: (error: any) => void, unseen?: boolean}} given */
  constructor({ every, ask, onTrouble, unseen = false }) {
    this.every = every;
    this.ask = ask;
    this.onTrouble = onTrouble;
    this.unseen = unseen;
  }

  // Requests now, then periodically; resolves after the response. Calls during a request cause one more
  // request after it.
  now() {
    if (this.#running) this.#again = true;
    else this.#running = this.#ask().finally(() => (this.#running = null));
    return this.#running;
  }

  // Requests after `wait` milliseconds, or sooner if now() is called.
  in(wait) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.#due = document.hidden && !this.unseen;
      if (this.#due) document.addEventListener("visibilitychange", () => this.#due && this.now(), { once: true });
      else this.now();
    }, wait);
  }

  stop() {
    this.#over = true;
    this.#due = false;
    clearTimeout(this.#timer);
  }

  async #ask() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#due = this.#over = false;
    let wait;
    do {
      this.#again = false;
      wait = await this.#once();
    } while (this.#again);
    // A timer set in the meantime stays.
    if (wait !== null && !this.#over && !this.#timer) this.in(wait);
  }

  async #once() {
    try {
      const wait = await this.ask();
      return wait === undefined ? this.every : wait;
    } catch (error) {
      if (!this.onTrouble) return this.every;
      if (loginEnded(error)) return null;
      this.onTrouble(error);
      return error.status === 403 || error.status === 404 ? null : this.every;
    }
  }
}
