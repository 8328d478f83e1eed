// What was typed in this tab and not saved. It outlives a reload, and ends with the tab.

export class Draft {
  constructor(key) {
    this.key = key;
  }

  // The values that were kept, with `at` (Unix seconds); null without any.
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
