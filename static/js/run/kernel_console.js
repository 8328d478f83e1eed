// The kernel that is kept after a notebook's cell has failed: what it is asked, and its answers.

import { call } from "../api.js";
import { perform, tell } from "../dialog.js";
import { el, fill, setText } from "../dom.js";
import { clock } from "../words.js";

export class KernelConsole {
  // `path`: of the point in the API; `ask()` asks for the answers soon.
  constructor(path, ask) {
    this.path = `${path}/kernel`;
    this.ask = ask;
    this.asked = new Map(); // elements of the answers, by the number of the question
    this.until = el("span");
    this.log = el("div.kernel-log", { role: "log", tabindex: "0", "aria-label": "Answers of the kernel" });
    this.code = el("input.form-control.form-control-sm", { id: "kernel-code", maxlength: "4000", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
    this.place = el(
      "div.kernel-console",
      { hidden: true },
      el("p.portal-facts", this.until, el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#end() }, "End now")),
      this.log,
      el(
        "form.kernel-form",
        { onsubmit: (event) => this.#submit(event) },
        el("label", { for: "kernel-code" }, "Variable or expression"),
        this.code,
        el("button.btn.btn-sm.btn-jupyter", { type: "submit" }, "Evaluate"),
      ),
    );
  }

  // Shows the kernel; null: none is kept.
  show(kernel) {
    this.place.hidden = !kernel;
    if (!kernel) return;
    setText(this.until, `The kernel of the failed cell is kept until ${clock(kernel.until)}.`);
    this.log.hidden = !kernel.asked.length;
    for (const { id, code, text } of kernel.asked) {
      let answer = this.asked.get(id);
      if (!answer) {
        answer = el("pre.cell-output");
        this.asked.set(id, answer);
        this.log.append(el("div", el("pre.cell-source", code), answer));
      }
      const words = text ?? "…";
      if (answer.textContent === (words || "(no output)")) continue;
      setText(answer, words || "(no output)");
      this.log.scrollTop = this.log.scrollHeight;
    }
  }

  async #submit(event) {
    event.preventDefault();
    const code = this.code.value.trim();
    if (!code) return;
    await tell(async () => {
      await call(/** @type {`runs/${string}/points/${string}/kernel`} */ (this.path), { method: "POST", body: { code } });
      this.code.value = "";
    });
    this.ask();
  }

  async #end() {
    await perform(call(/** @type {`runs/${string}/points/${string}/kernel`} */ (this.path), { method: "DELETE" }));
    fill(this.log);
    this.asked.clear();
    this.ask();
  }
}
