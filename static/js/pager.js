// The pages of a list. The API's cursors only go forward, so earlier ones are stored.

import { setText } from "./dom.js";

export class Pager {
  constructor(nav, limit, onTurn) {
    this.nav = nav;
    this.limit = limit;
    this.first();
    nav.addEventListener("click", (event) => {
      const step = Number(event.target.closest("button")?.dataset.step);
      if (!step) return;
      if (step > 0) this.cursors.push(this.next);
      else this.cursors.pop();
      onTurn();
    });
  }

  // The API's `after` parameter.
  get after() {
    return this.cursors.at(-1);
  }

  first() {
    this.cursors = [null];
  }

  // The page of `ask({limit, after})`, or the one before it when it has become empty.
  /** @template T @param {(place: object) => Promise<T>} ask @returns {Promise<T>} */
  async read(ask) {
    /** @type {any} */
    const page = await ask({ limit: this.limit, after: this.after });
    if (!page.items.length && this.cursors.length > 1) {
      this.cursors.pop();
      return this.read(ask);
    }
    this.show(page);
    return page;
  }

  show(page) {
    const start = (this.cursors.length - 1) * this.limit;
    const [before, next] = this.nav.querySelectorAll("button");
    this.next = page.next;
    this.nav.hidden = !page.next && this.cursors.length === 1;
    before.disabled = this.cursors.length === 1;
    next.disabled = !page.next;
    const say = (number) => number.toLocaleString("en");
    setText(this.nav.querySelector("span"), `${say(start + 1)}–${say(start + page.items.length)} of ${say(page.total)}`);
  }
}
