// The line below a plot: which of its lines is highlighted, in words; a list to choose one with the
// keyboard; and a button that opens it.

import { differs, el, fill, setText } from "../dom.js";

export class Picker {
  // `label`: of the list; `onPick(key)`: "" is none; `onOpen(key)`; `open`: words of the button.
  constructor(place, { id, label, onPick, onOpen, open = "Open point" }) {
    this.onPick = onPick;
    this.select = el("select.form-select.form-select-sm", { id, onchange: () => onPick(this.select.value) });
    this.button = el("button.btn.btn-sm.btn-outline-contrast", { type: "button", hidden: true, onclick: () => onOpen(this.select.value) }, open);
    this.words = el("p.portal-quiet", { role: "status" });
    place.append(el("div.plot-picker", el("label", { for: id }, label), this.select, this.button, this.words));
  }

  // Offers these lines, {key, name} each; the chosen one stays chosen if it is still there.
  offer(lines) {
    if (!differs(this, lines.map(({ key, name }) => [key, name]))) return;
    const chosen = this.select.value;
    fill(this.select, el("option", { value: "" }, "none"), lines.map(({ key, name }) => el("option", { value: key }, name)));
    this.select.value = lines.some(({ key }) => key === chosen) ? chosen : "";
    this.button.hidden = !this.select.value;
  }

  // Shows what is highlighted; it was pointed at.
  show(key, words) {
    if (this.select.value !== key) this.select.value = key;
    this.button.hidden = !key;
    setText(this.words, words);
  }
}
