// The dialog of a student on the board: the facts of their session, and the actions on it.

import { call } from "../api.js";
import { ask, perform, tell } from "../dialog.js";
import { DANGER, MAIN, button, byId, el, fill, icon } from "../dom.js";
import { clock, duration, memory, percent } from "../words.js";
import { enter } from "../enter.js";
import { doing, gpuWords, time } from "./tile.js";
import { person as path, at, tileState, when } from "./words.js";

export class Person {
  // `course`: the page's facts; `onDone()` is called after each action.
  constructor(course, onDone) {
    this.course = course;
    this.onDone = onDone;
  }

  // Opens the dialog of a student; it is updated until it is closed.
  open(tile) {
    this.close();
    const back = document.activeElement;
    this.body = el("div");
    this.dialog = el("dialog.ask.seat-dialog", { "aria-labelledby": "seat-title" }, this.body);
    this.dialog.addEventListener("close", () => {
      this.dialog?.remove();
      this.dialog = null;
      const place = byId("tiles").querySelector(`[data-person="${CSS.escape(tile.person)}"] .seat-name`);
      (back?.isConnected ? back : place)?.focus();
    });
    byId("board").append(this.dialog);
    this.show(tile);
    this.dialog.showModal();
  }

  close() {
    this.dialog?.close();
  }

  // Updates the dialog that is open.
  follow(tiles) {
    if (!this.dialog) return;
    const tile = tiles.find((other) => other.person === this.tile.person);
    if (tile && JSON.stringify(tile) !== JSON.stringify(this.tile)) this.show(tile);
  }

  show(tile) {
    this.tile = tile;
    const focused = /** @type {any} */ (document.activeElement)?.dataset?.act;
    const rows = [
      ["State", [tileState(tile.state ?? "none"), tile.since ? el("span.portal-quiet", ` since ${clock(tile.since)}`) : null]],
      tile.words && [tile.state === "failed" ? "Reason" : "Status", tile.words],
      tile.nodes?.length && ["Node", tile.nodes.join(", ")],
      tile.job_id && ["Job", tile.job_id],
      tile.state === "running" && gpuWords(tile) && ["Resources", gpuWords(tile)],
      tile.gpu_memory !== undefined && ["GPU memory", memory(tile.gpu_memory)],
      tile.gpu_use !== undefined && ["GPU use", percent(tile.gpu_use)],
      tile.ends_at && ["Ends", when(tile.ends_at)],
      tile.state === "running" && !this.course.bare && ["Activity", doing(tile).map(([, text]) => text).join("; ") || "none yet"],
      tile.notebooks?.length && ["Open notebooks", el("ul.plain", tile.notebooks.map((path) => el("li", el("code", path))))],
      tile.handout && ["Handout revision", tile.handout.slice(0, 10)],
      tile.handout_message && ["Handouts", tile.handout_message],
    ].filter(Boolean);
    fill(
      this.body,
      el("div.panel-head", el("h2", { id: "seat-title" }, tile.person), el("button.btn-close", { type: "button", "aria-label": "Close", dataset: { act: "close" }, onclick: () => this.close() })),
      tile.hand_at ? el("p.seat-asks", icon("hand"), " ", tile.hand, el("span.portal-quiet", ` since ${clock(tile.hand_at)}`)) : null,
      el("dl.facts", rows.flatMap(([name, value]) => [el("dt", name), el("dd", value)])),
      this.#help(tile),
      el("div.entry-actions", this.actions(tile)),
    );
    if (focused) this.body.querySelector(`[data-act="${focused}"]`)?.focus();
  }

  // The buttons of the actions that are possible now.
  actions(tile) {
    const state = tile.state ?? "none";
    const lives = Boolean(tile.session_id) && (state === "running" || state === "waiting");
    const made = [];
    if (state === "none" || state === "failed") made.push(this.#button("start", state === "failed" ? "Start again" : "Start", "jupyter", () => this.#do(tile, "start")));
    if (tile.hand_at && !this.course.bare) made.push(this.#button("lower", "Lower hand", "outline-contrast", () => this.lower(tile)));
    if (state === "running" && this.course.minutes.length) made.push(this.#button("extend", "Extend…", "outline-contrast", () => this.extend(tile)));
    if (lives) {
      made.push(this.#button("restart", "Restart…", "outline-contrast", () => this.#sure(tile, "restart", "Restart")));
      made.push(this.#button("stop", state === "waiting" ? "Cancel…" : "Stop…", DANGER, () => this.#sure(tile, "stop", "Stop")));
    }
    return made;
  }

  // The buttons on the tile itself.
  quick(tile) {
    if (!tile.hand_at || this.course.bare) return [];
    const { person } = tile;
    return [
      tile.state === "running" && this.course.help !== "off"
        ? button("Help", () => (this.open(tile), this.help(tile)), MAIN, { "aria-label": `Help ${person}` })
        : null,
      button("Lower", () => this.lower(tile), undefined, { "aria-label": `Lower hand of ${person}` }),
    ];
  }

  #button(act, words, look, onclick) {
    return button(words, onclick, look, { dataset: { act } });
  }

  /** @param {any} tile @param {"start" | "stop" | "restart" | "extend"} verb */
  async #do(tile, verb, body = {}) {
    await perform(call(path(this.course.course, tile.person, verb), { method: "POST", body }));
    this.onDone();
  }

  async #sure(tile, verb, action) {
    if ((await ask({ title: `${action} the session of ${tile.person}?`, text: "Unsaved work is lost. Saved files stay.", action, danger: true })) === null) return;
    if (verb === "restart") await tell(() => `${tile.person}’s session is stopped and then started again.`);
    await this.#do(tile, verb);
  }

  async extend(tile) {
    const minutes = await ask({
      title: `Extend the session of ${tile.person}`,
      text: tile.ends_at ? `The session ends at ${clock(tile.ends_at)}.` : "",
      action: "Extend",
      field: { label: "Extend by", choices: this.course.minutes.map((number) => [String(number), duration(60 * number)]) },
    });
    if (minutes) await this.#do(tile, "extend", { minutes: Number(minutes), ends_at: tile.ends_at });
  }

  async lower(tile) {
    await tell(() => call(path(this.course.course, tile.person, "hand"), { method: "DELETE" }));
    this.onDone();
  }

  #help(tile) {
    if (this.course.bare || tile.state !== "running") return null;
    if (this.course.whyOff) return el("p.portal-quiet", this.course.whyOff);
    const { help } = tile;
    const mine = help && help.helper === this.course.user;
    if (!help) return el("p", this.#button("help", this.course.help === "always" ? "Help in their session" : "Ask to help in their session", "jupyter", () => this.help(tile)));
    const granted = help.state === "granted";
    return el(
      "div.seat-helping",
      el("p", icon("life-ring"), " ", granted ? `${mine ? "You have" : `${help.helper} has`} access until ${time(help.until)}. ${tile.person} sees this.` : `${mine ? "You have" : `${help.helper} has`} asked to help. ${tile.person} agrees or refuses in JupyterLab.`),
      el(
        "div.entry-actions",
        granted && mine ? this.#button("enter", "Open their session", "jupyter", () => enter(at(this.course.course, "help", help.id, "enter"))) : null,
        this.#button("end", granted ? "End help" : "Cancel request", "outline-contrast", () => this.#end(help)),
      ),
    );
  }

  async help(tile) {
    const minutes = Math.min(15, this.course.help_minutes);
    await tell(async () => {
      const answer = await call(path(this.course.course, tile.person, "help"), { method: "POST", body: { minutes } });
      if (this.dialog) this.show({ ...this.tile, help: answer.help });
      return answer.url ? "" : `${tile.person} is asked in JupyterLab.`;
    });
    this.onDone();
  }

  async #end(help) {
    await perform(call(at(this.course.course, "help", help.id, "end"), { method: "POST", body: {} }), "Help ended.");
    this.onDone();
  }
}
