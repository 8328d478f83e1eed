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

  // Goes one page back, when this one has become empty; returns whether there is one.
  back() {
    if (this.cursors.length === 1) return false;
    this.cursors.pop();
    return true;
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
