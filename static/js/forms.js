// Forms that send their input, in the page or in a dialog.

import { el, setText } from "./dom.js";

// An error of the input: its sentence, and the field that the focus moves to.
export class Wrong extends Error {
  constructor(message, field) {
    super(message);
    this.field = field;
  }
}

// Calls `send()` when the form is submitted, with the button disabled meanwhile, or until `settled()` says
// how it is. The message of an error is shown in `problem`.
/** @param {any} form @param {any} problem @param {() => Promise<void>} send @param {{ button?: any, settled?: () => void }} [given] */
export function sends(form, problem, send, { button = form.querySelector("button"), settled = () => (button.disabled = false) } = {}) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    setText(problem, "");
    button.disabled = true;
    try {
      await send();
    } catch (error) {
      setText(problem, error.message);
      if (error instanceof Wrong) error.field?.focus();
    }
    settled();
  });
}

// Opens a dialog with a form: `content`, elements below its title and text, and the buttons `keep` and
// `action`. `id` begins the ids of title and text. `send()` sends the form and closes the dialog; without
// it, the form only closes it. `onClose(sent)` is called at the end. Focus moves to `first`, and returns.
/**
 * @param {{ id: string, title: string, text?: string, content?: any[], action: string, danger?: boolean, keep?: string, first?: any,
 *   send?: () => Promise<void>, onClose?: (sent: boolean) => void }} given
 */
export function openForm({ id, title, text = "", content = [], action, danger = false, keep = "Back", first, send, onClose }) {
  const problem = send ? el("p.form-problem", { role: "alert" }) : null;
  const go = el(`button.btn.${danger ? "btn-danger" : "btn-jupyter"}`, { value: "yes" }, action);
  const form = el(
    "form",
    { method: "dialog" },
    el("h2", { id: `${id}-title` }, title),
    text ? el("p", { id: `${id}-text` }, text) : null,
    content,
    problem,
    el("div.ask-buttons", el("button.btn.btn-outline-contrast", { type: "button", onclick: () => dialog.close() }, keep), go),
  );
  const dialog = el("dialog.ask", { "aria-labelledby": `${id}-title`, "aria-describedby": text ? `${id}-text` : null }, form);
  const from = document.activeElement;
  // A menu has closed by then.
  const back = /** @type {HTMLElement} */ (from?.closest(".more")?.querySelector("button") ?? from);
  if (send) sends(form, problem, send, { button: go });
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (back?.isConnected) back.focus();
    onClose?.(dialog.returnValue === "yes");
  });
  document.body.append(dialog);
  dialog.showModal();
  (first ?? form.querySelector("button")).focus();
  return dialog;
}
