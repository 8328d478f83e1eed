// Unsaved input of this tab. It survives a reload and ends with the tab.

export class Draft {
  constructor(key) {
    this.key = key;
  }

  // The stored values, with `at` (Unix seconds); null if there are none.
  get value() {
    try {
      return JSON.parse(sessionStorage.getItem(this.key) ?? "null");
    } catch {
      return null;
    }
  }

  keep(values) {
    sessionStorage.setItem(this.key, JSON.stringify({ ...values, at: Date.now() / 1000 }));
  }

  forget() {
    sessionStorage.removeItem(this.key);
  }
}
