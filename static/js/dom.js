// Elements from plain values. Text is only ever set as text, so that user input, such as a job's name or
// a log line, cannot become markup.

// el("a.btn", {href, onclick, dataset: {…}, style: {…}}, child, …): children are elements, texts or nothing; an element
// without properties has its children at once: el("p", child, …).
/** @param {string} what @param {any} props @param {any[]} children @returns {any} */
export function el(what, props = {}, ...children) {
  if (props?.constructor !== Object) return el(what, {}, props, ...children);
  const [tag, ...classes] = what.split(".");
  const made = document.createElement(tag || "div");
  if (classes.length) made.className = classes.join(" ");
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "dataset" || name === "style") Object.assign(made[name], value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...shown(children));
  return made;
}

const shown = (children) =>
  children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== "");

// Replaces the children of `place`.
export function fill(place, ...children) {
  place.replaceChildren(...shown(children));
}

// A decorative icon next to a text.
export const icon = (name) => el(`i.fa.fa-${name}`, { "aria-hidden": "true" });

// A text for screen readers only.
export const hidden = (text) => el("span.visually-hidden", text);

/** @type {(id: string) => any} */
export const byId = (id) => document.getElementById(id);

// Sets the text only if it differs, so that unchanged text is neither announced nor painted again.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// What a part shows in place of its content, in one sentence, with a link or button if there is something to do:
// there is nothing, or it could not be loaded or is old. Until its script fills it a part has aria-busy, which the
// styles show as a skeleton.
export const empty = (words, action = null) => el("p.portal-quiet.empty", words, action ? [" ", action] : null);
export const trouble = (words, action = null) => el("div.alert.alert-warning.trouble", words, action ? [" ", action] : null);

// Looks of a button: what follows "btn-" in its class, and further classes.
export const MAIN = "jupyter";
export const DANGER = "outline-danger.portal-danger";
export const button = (words, onclick, look = "outline-contrast", more = {}) => el(`button.btn.btn-sm.btn-${look}`, { type: "button", onclick, ...more }, words);

// Whether `value` is another one than that of the last call for `of`, an object: then it is painted again.
const painted = new WeakMap();
export function differs(of, value) {
  const text = JSON.stringify(value);
  if (painted.get(of) === text) return false;
  painted.set(of, text);
  return true;
}

// Paints what is in `place` as new elements; the focus goes to the one with the same words.
export function repaint(place, paint) {
  const words = place.contains(document.activeElement) ? document.activeElement.textContent : null;
  paint();
  if (words) [...place.querySelectorAll("a, button, summary")].find((element) => element.textContent === words)?.focus();
}

// Buttons of which one is pressed, by the data attribute `name`. `onChoose(value)` of the one that is clicked. Returns
// what presses the one with a value.
export function presses(place, name, onChoose) {
  place.addEventListener("click", (event) => {
    const clicked = event.target.closest("button");
    if (clicked) onChoose(clicked.dataset[name]);
  });
  return (value) => {
    for (const one of place.querySelectorAll(`[data-${name}]`)) one.setAttribute("aria-pressed", String(one.dataset[name] === value));
  };
}

// Shows an Error above the page's parts; null removes it.
export function showTrouble(error) {
  const place = byId("troubles");
  const text = error?.message ?? "";
  const shown = place.querySelector(".trouble")?.firstChild ?? place;
  if (shown.textContent !== text) fill(place, text ? trouble(text, el("a", { href: window.location.pathname + window.location.search }, "Reload the page")) : null);
}

// Announces `text` in the page's live region.
export function announce(text) {
  const place = byId("board-status");
  place.textContent = "";
  // Set with a delay: otherwise a repeated sentence is announced only once.
  setTimeout(() => {
    place.textContent = text;
  }, 50);
}

// A debounced function: runs once, some time after its last call; `cancel()` drops a pending run.
export function later(run, delay) {
  let timer = 0;
  const soon = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...values), typeof delay === "function" ? delay() : delay);
  };
  soon.cancel = () => clearTimeout(timer);
  return soon;
}
