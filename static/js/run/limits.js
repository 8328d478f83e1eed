// Limits of the axes of parallel coordinates, and the fields that show them: a minimum and a maximum for
// numbers, one of the texts for others.

import { differs, el, fill } from "../dom.js";

export class Limits {
  // `onChange()`: a field was changed.
  constructor(place, onChange) {
    this.place = place;
    this.onChange = onChange;
    this.axes = [];
    this.limits = new Map(); // by kind and name of an axis: {from, to} for numbers, else {texts}
  }

  get any() {
    return this.limits.size > 0;
  }

  // Offers fields for these axes (axes.js); limits of others are dropped.
  offer(axes) {
    this.axes = axes;
    if (!differs(this, axes.map((axis) => [key(axis), axis.texts]))) return;
    const keys = new Set(axes.map(key));
    for (const known of this.limits.keys()) if (!keys.has(known)) this.limits.delete(known);
    fill(this.place, axes.map((axis, at) => el("div", el("span.parallel-limit-name", { id: `parallel-limit-${at}` }, axis.name), this.#field(axis, at))));
    this.#show();
  }

  // Limits an axis to what stands between two places on it, 0 to 1.
  between(axis, low, high) {
    if (axis.numbers) this.limits.set(key(axis), { from: axis.value(low), to: axis.value(high) });
    else this.limits.set(key(axis), { texts: new Set(axis.texts.filter((text) => axis.at(text) >= low && axis.at(text) <= high)) });
    this.#show();
  }

  remove(axis) {
    this.limits.delete(key(axis));
    this.#show();
  }

  // The places on an axis between which its limit is; null without one.
  span(axis) {
    const limit = this.limits.get(key(axis));
    if (!limit) return null;
    const places = axis.numbers ? [axis.at(limit.from), axis.at(limit.to)] : [...limit.texts].map(axis.at);
    if (!places.length) return null;
    const [low, high] = [Math.min(...places), Math.max(...places)];
    return [Number.isNaN(low) ? 0 : Math.max(0, low), Number.isNaN(high) ? 1 : Math.min(1, high)];
  }

  // Whether a point is within all limits.
  allow(item) {
    return this.axes.every((axis) => {
      const limit = this.limits.get(key(axis));
      if (!limit) return true;
      const value = item[axis.kind][axis.index];
      if (axis.numbers) return typeof value === "number" && value >= limit.from && value <= limit.to;
      return value !== null && limit.texts.has(String(value));
    });
  }

  #field(axis, at) {
    if (!axis.numbers) {
      const choice = el("select.form-select.form-select-sm", { "aria-labelledby": `parallel-limit-${at}`, onchange: () => this.#set(axis, choice.value ? { texts: new Set([choice.value]) } : null) }, el("option", { value: "" }, "all"), axis.texts.map((text) => el("option", { value: text }, text)));
      return choice;
    }
    const field = (what) => el("input.form-control.form-control-sm", { type: "number", step: "any", placeholder: what, "aria-label": `${axis.name}, ${what}`, oninput: () => this.#read(axis, at) });
    return el("span.parallel-range", field("minimum"), field("maximum"));
  }

  #read(axis, at) {
    const [from, to] = [...this.place.children[at].querySelectorAll("input")].map((field) => field.value);
    const limit = { from: from === "" ? -Infinity : Number(from), to: to === "" ? Infinity : Number(to) };
    this.#set(axis, from === "" && to === "" ? null : limit);
  }

  #set(axis, limit) {
    if (limit) this.limits.set(key(axis), limit);
    else this.limits.delete(key(axis));
    this.onChange();
  }

  // The fields say what was dragged.
  #show() {
    this.axes.forEach((axis, at) => {
      const limit = this.limits.get(key(axis));
      const place = this.place.children[at];
      if (!place) return;
      if (axis.numbers) {
        const [from, to] = place.querySelectorAll("input");
        from.value = text(limit?.from);
        to.value = text(limit?.to);
      } else place.querySelector("select").value = limit?.texts.size === 1 ? [...limit.texts][0] : "";
    });
  }
}

const key = (axis) => `${axis.kind}:${axis.name}`;
const text = (value) => (value === undefined || !Number.isFinite(value) ? "" : String(Number(value.toPrecision(6))));
