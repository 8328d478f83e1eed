// A confirmation in the page's <dialog>: what is going to happen, optionally a text to enter, and the
// result as a message. Focus moves into the dialog and returns.

import { announce, byId, el } from "./dom.js";
import { openForm } from "./forms.js";

// ask({title, text, action, danger, field: {label, required, maxlength, value, rows}}) resolves to
// null if the user cancels, else to the field's text (or ""). With rows the field
// takes several lines; with choices ([value, words] each) it is a select.
export function ask({ title, text, action, danger = false, field = null, keep = "Back" }) {
  return new Promise((resolve) => {
    const input = field?.choices
      ? el("select.form-select", { id: "dialog-field" }, field.choices.map(([value, words]) => el("option", { value }, words)))
      : field
      ? el(field.rows ? "textarea.form-control" : "input.form-control", {
          id: "dialog-field",
          rows: field.rows,
          required: field.required,
          maxlength: field.maxlength ?? 200,
          autocomplete: "off",
        })
      : null;
    if (field?.value) input.value = field.value;
    const label = field ? el("label.form-label", { for: "dialog-field" }, field.label) : null;
    const onClose = (sent) => resolve(sent ? (input?.value.trim() ?? "") : null);
    openForm({ id: "dialog", title, text, content: [label, input], action, danger, keep, first: input, onClose });
  });
}

// The field of a dialog that stops another user's session.
export const readBy = (user) => ({ label: `Reason, which ${user ?? "its owner"} reads`, required: true });

// Runs `act` and shows its result in the page (role=status).
export async function tell(act) {
  try {
    const message = await act();
    if (message) toast(message);
    return true;
  } catch (error) {
    toast(error.message, true);
    return false;
  }
}

// Shows in the page what has come of a request: `words`, or without them its answer's message. Resolves
// to false if it failed.
/** @param {Promise<any>} request @param {string} [words] */
export const perform = (request, words = undefined) =>
  tell(async () => {
    const answer = await request;
    return words ?? answer?.message;
  });

// Asks; unless the user cancels, performs `request(text)`. Resolves to whether it worked.
/** @param {any} question @param {(text: string) => Promise<any>} request @param {string} [words] */
export async function confirmed(question, request, words) {
  const text = await ask(question);
  return text !== null && perform(request(text), words);
}

// The answer of a request; null if it failed, which is shown in the page.
/** @template T @param {Promise<T>} request @returns {Promise<T | null>} */
export async function answered(request) {
  try {
    return await request;
  } catch (error) {
    toast(error.message, true);
    return null;
  }
}

// A message that stays for some seconds, and longer while the pointer is on it.
export function toast(text, bad = false) {
  let place = byId("board-toasts");
  if (!place) {
    place = el("div.toasts", { id: "board-toasts" });
    byId("board").append(place);
  }
  const note = el(
    `div.note${bad ? ".note-bad" : ""}`,
    el("span", text),
    el("button.btn-close", { type: "button", "aria-label": "Close", onclick: () => note.remove() }),
  );
  place.append(note);
  announce(text);
  const leave = () => {
    if (note.matches(":hover, :focus-within")) setTimeout(leave, 3000);
    else note.remove();
  };
  setTimeout(leave, bad ? 15000 : 8000);
}
