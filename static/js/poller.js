// Asks again and again: one question at a time, and none while nobody looks at the page.

import { loginEnded } from "./api.js";

export class Poller {
  #timer = 0; // of the next time; 0: none is set
  #running = null; // what resolves when the answer is there
  #again = false; // asked for meanwhile
  #due = false; // it was time while nobody looked
  #over = false;

  // `ask()` shows what it learns. It may resolve to the milliseconds until the next time (else it is
  // `every`), or to null when there is nothing more to learn. `onTrouble(error)` hears what it throws:
  // after a 403 or 404 it is not asked again, and where the login has ended the page goes through it.
  // Without, nobody hears it, and it is asked again. `unseen`: also while the page is hidden.
  /** @param {{every: number, ask: () => any, onTrouble?: (error: any) => void, unseen?: boolean}} given */
  constructor({ every, ask, onTrouble, unseen = false }) {
    this.every = every;
    this.ask = ask;
    this.onTrouble = onTrouble;
    this.unseen = unseen;
  }

  // Asks at once, and from then on; resolves when that is answered. What is asked for while an answer
  // is awaited is asked once, after it.
  now() {
    if (this.#running) this.#again = true;
    else this.#running = this.#ask().finally(() => (this.#running = null));
    return this.#running;
  }

  // Asks after so many milliseconds, or sooner where now() is called.
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
    // A time that somebody has set meanwhile stays.
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
