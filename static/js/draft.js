// Unsaved input of this tab. It survives a reload and ends with the tab.

import { stored } from "./stored.js";

export class Draft {
  constructor(key) {
    this.key = key;
  }

  // The stored values, with `at` (Unix seconds); null if there are none.
  get value() {
    return stored(this.key, null, sessionStorage);
  }

  keep(values) {
    sessionStorage.setItem(this.key, JSON.stringify({ ...values, at: Date.now() / 1000 }));
  }

  forget() {
    sessionStorage.removeItem(this.key);
  }
}
