// One student of the board: what is known of their session, and what can be done about it.

import { call } from "../api.js";
import { ask, tell } from "../dialog.js";
import { byId, el, fill, icon } from "../dom.js";
import { clock, duration, memory, percent } from "../words.js";
import { doing, gpuWords, time } from "./tile.js";
import { person as path, at, tileState, when } from "./words.js";

export class Person {
  // `course`: the page's facts; `onDone()` is called after something was done.
  constructor(course, onDone) {
    this.course = course;
    this.onDone = onDone;
    this.urls = new Map(); // sessions that one was let into, by the help's number
  }

  // Shows the details of one; they follow until the dialog is closed.
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

  // The newest state of who is shown.
  follow(tiles) {
    if (!this.dialog) return;
    const tile = tiles.find((one) => one.person === this.tile.person);
    if (tile && JSON.stringify(tile) !== JSON.stringify(this.tile)) this.show(tile);
  }

  show(tile) {
    this.tile = tile;
    const focused = /** @type {any} */ (document.activeElement)?.dataset?.act;
    const rows = [
      ["State", [tileState(tile.state ?? "none"), tile.since ? el("span.portal-quiet", {}, ` since ${clock(tile.since)}`) : null]],
      tile.words && [tile.state === "failed" ? "Why" : "It says", tile.words],
      tile.nodes?.length && ["Node", tile.nodes.join(", ")],
      tile.job_id && ["Job", tile.job_id],
      tile.state === "running" && gpuWords(tile) && ["Holds", gpuWords(tile)],
      tile.gpu_memory !== undefined && ["GPU memory", memory(tile.gpu_memory)],
      tile.gpu_use !== undefined && ["GPU use", percent(tile.gpu_use)],
      tile.ends_at && ["Its time is up", when(tile.ends_at)],
      tile.state === "running" && !this.course.bare && ["Activity", doing(tile).map(([, text]) => text).join("; ") || "none yet"],
      tile.notebooks?.length && ["Open", el("ul.plain", {}, tile.notebooks.map((one) => el("li", {}, el("code", {}, one))))],
      tile.handout && ["Handout", tile.handout.slice(0, 10)],
      tile.handout_message && ["Files", tile.handout_message],
    ].filter(Boolean);
    fill(
      this.body,
      el("div.panel-head", {}, el("h2", { id: "seat-title" }, tile.person), el("button.btn-close", { type: "button", "aria-label": "Close", dataset: { act: "close" }, onclick: () => this.close() })),
      tile.hand_at ? el("p.seat-asks", {}, icon("hand"), " ", tile.hand, el("span.portal-quiet", {}, ` since ${clock(tile.hand_at)}`)) : null,
      el("dl.facts", {}, rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
      this.#help(tile),
      el("div.entry-actions", {}, this.actions(tile)),
    );
    if (focused) this.body.querySelector(`[data-act="${focused}"]`)?.focus();
  }

  // Buttons for what can be done now.
  actions(tile) {
    const state = tile.state ?? "none";
    const lives = Boolean(tile.session_id) && (state === "running" || state === "waiting");
    const made = [];
    if (state === "none" || state === "failed") made.push(this.#button("start", state === "failed" ? "Start again" : "Start", "jupyter", () => this.#do(tile, "start")));
    if (tile.hand_at && !this.course.bare) made.push(this.#button("lower", "Lower the hand", "outline-contrast", () => this.lower(tile)));
    if (state === "running" && this.course.minutes.length) made.push(this.#button("extend", "Extend…", "outline-contrast", () => this.extend(tile)));
    if (lives) {
      made.push(this.#button("restart", "Restart…", "outline-contrast", () => this.#sure(tile, "restart", "Restart")));
      made.push(this.#button("stop", state === "waiting" ? "Cancel…" : "Stop…", "outline-danger.portal-danger", () => this.#sure(tile, "stop", "Stop")));
    }
    return made;
  }

  // What stands on the tile itself.
  quick(tile) {
    if (!tile.hand_at || this.course.bare) return [];
    const { person } = tile;
    return [
      tile.state === "running" && this.course.help !== "off"
        ? el("button.btn.btn-sm.btn-jupyter", { type: "button", "aria-label": `Help ${person}`, onclick: () => (this.open(tile), this.help(tile)) }, "Help")
        : null,
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "aria-label": `Lower the hand of ${person}`, onclick: () => this.lower(tile) }, "Lower"),
    ];
  }

  #button(act, words, look, onclick) {
    return el(`button.btn.btn-sm.btn-${look}`, { type: "button", dataset: { act }, onclick }, words);
  }

  /** @param {any} tile @param {"start" | "stop" | "restart" | "extend"} verb */
  async #do(tile, verb, body = {}) {
    await tell(async () => {
      const answer = await call(path(this.course.course, tile.person, verb), { method: "POST", body });
      return answer?.message;
    });
    this.onDone();
  }

  async #sure(tile, verb, action) {
    const sure = await ask({
      title: `${action} the session of ${tile.person}?`,
      text: "What is not saved is lost. Their files stay.",
      action,
      danger: true,
    });
    if (sure === null) return;
    if (verb === "restart") await tell(() => `${tile.person}’s session is stopped, then started again.`);
    await this.#do(tile, verb);
  }

  async extend(tile) {
    const minutes = await ask({
      title: `Extend the session of ${tile.person}`,
      text: tile.ends_at ? `Its time is up at ${clock(tile.ends_at)}.` : "",
      action: "Extend",
      field: { label: "By", choices: this.course.minutes.map((one) => [String(one), duration(60 * one)]) },
    });
    if (minutes) await this.#do(tile, "extend", { minutes: Number(minutes), ends_at: tile.ends_at });
  }

  async lower(tile) {
    await tell(() => call(path(this.course.course, tile.person, "hand"), { method: "DELETE" }));
    this.onDone();
  }

  #help(tile) {
    if (this.course.bare || tile.state !== "running") return null;
    if (this.course.whyOff) return el("p.portal-quiet", {}, `Nobody can be helped in their session: ${this.course.whyOff}`);
    const { help } = tile;
    const mine = help && help.helper === this.course.user;
    if (!help) return el("p", {}, this.#button("help", this.course.help === "always" ? "Help in their session" : "Ask to help in their session", "jupyter", () => this.help(tile)));
    const url = this.urls.get(help.id);
    const granted = help.state === "granted";
    return el(
      "div.seat-helping",
      {},
      el("p", {}, icon("life-ring"), " ", granted ? `${mine ? "You are" : `${help.helper} is`} let in until ${time(help.until)}. ${tile.person} sees that.` : `${mine ? "You have" : `${help.helper} has`} asked. ${tile.person} sees the question in Lab, and agrees or refuses.`),
      el(
        "div.entry-actions",
        {},
        granted && mine && url ? el("a.btn.btn-sm.btn-jupyter", { href: url, target: "_blank", rel: "noopener", dataset: { act: "enter" } }, "Open their session") : null,
        granted && mine && !url ? this.#button("enter", "Get the way in", "jupyter", () => this.help(tile, help.minutes)) : null,
        this.#button("end", granted ? "End it" : "Do not ask", "outline-contrast", () => this.#end(help)),
      ),
    );
  }

  async help(tile, minutes = Math.min(15, this.course.help_minutes)) {
    await tell(async () => {
      const answer = await call(path(this.course.course, tile.person, "help"), { method: "POST", body: { minutes } });
      if (answer.url) this.urls.set(answer.help.id, answer.url);
      if (this.dialog) this.show({ ...this.tile, help: answer.help });
      return answer.url ? "" : `${tile.person} is asked in Lab.`;
    });
    this.onDone();
  }

  async #end(help) {
    await tell(async () => {
      await call(at(this.course.course, "help", help.id, "end"), { method: "POST", body: {} });
      this.urls.delete(help.id);
      return "It has ended.";
    });
    this.onDone();
  }
}
