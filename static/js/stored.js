// What the browser keeps as JSON: for all its tabs, or for this one.

// The value of a key; `otherwise` without one, or if it cannot be read.
export function stored(key, otherwise, storage = localStorage) {
  try {
    return JSON.parse(storage.getItem(key) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}
