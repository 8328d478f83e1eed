// A live log: plain text in a box of bounded size that follows the end until the user stops it or
// scrolls away.

import { apiUrl, call, facts } from "../api.js";
import { el, setText } from "../dom.js";
import { bytes } from "./words.js";

const MOST = 400_000; // characters in the page; more would slow down the browser
const PIECE = 20_000;
const NEAR = 24; // within this many pixels counts as the end

export class LogBox {
  // `path`: the log's path in the API, e.g. "builds/7/log"; `level`: of the heading.
  constructor(place, { path, title, id, level = "h3" }) {
    this.path = path;
    this.id = id;
    this.length = 0;
    this.dropped = 0;
    this.waiting = "";
    this.following = true;
    this.pre = el("pre.portal-log.live-log", { id, tabindex: "0", role: "region", "aria-labelledby": `${id}-title` });
    this.words = el("p.portal-quiet", { id: `${id}-words`, role: "status" });
    this.follow = el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "aria-pressed": "true", onclick: () => this.#turn(!this.following) }, "Follow");
    this.save = el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#save() }, "Save log");
    place.replaceChildren(
      el("div.part-head", el(level, { id: `${id}-title` }, title), this.words, el("div.entry-actions", this.follow, this.save)),
      this.pre,
    );
    this.pre.addEventListener("scroll", () => this.#scrolled());
    this.say("No output yet.");
  }

  // Adds text; it is painted at most once per frame.
  add(text) {
    if (!text) return;
    this.waiting += plain(text);
    if (this.waiting.length > 2 * MOST) this.#cut();
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.#paint());
    // Hidden pages have no animation frames.
    if (document.hidden) this.#paint();
  }

  say(words) {
    if (!this.length && !this.waiting) setText(this.words, words);
  }

  #cut() {
    const gone = this.waiting.length - MOST;
    this.dropped += gone;
    this.waiting = this.waiting.slice(gone);
  }

  #paint() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.waiting) return;
    if (this.waiting.length > MOST) this.#cut();
    // In pieces, so that the oldest can be removed.
    for (let at = 0; at < this.waiting.length; at += PIECE) {
      this.pre.append(document.createTextNode(this.waiting.slice(at, at + PIECE)));
    }
    this.length += this.waiting.length;
    this.waiting = "";
    while (this.length > MOST && this.pre.childNodes.length > 1) {
      const first = this.pre.firstChild;
      this.length -= first.data.length;
      this.dropped += first.data.length;
      first.remove();
    }
    setText(this.words, this.dropped ? `The first ${bytes(this.dropped)} are not shown.` : "");
    if (this.following) this.pre.scrollTop = this.pre.scrollHeight;
  }

  #scrolled() {
    const atEnd = this.pre.scrollTop + this.pre.clientHeight >= this.pre.scrollHeight - NEAR;
    if (atEnd !== this.following) this.#turn(atEnd);
  }

  #turn(on) {
    this.following = on;
    this.follow.setAttribute("aria-pressed", String(on));
    setText(this.follow, on ? "Follow" : "Follow again");
    if (on) this.pre.scrollTop = this.pre.scrollHeight;
  }

  // Saves the whole log as a file, fetched in pieces.
  async #save() {
    this.save.disabled = true;
    try {
      const parts = [];
      let offset = 0;
      for (;;) {
        const { text, next } = await call(this.path, { query: { offset } });
        if (text) parts.push(text);
        if (next === null || next === undefined || next <= offset) break;
        offset = next;
      }
      const url = URL.createObjectURL(new Blob(parts, { type: "text/plain" }));
      el("a", { href: url, download: `${this.path.replaceAll("/", "-")}.txt` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
    } catch (error) {
      setText(this.words, error.message);
    } finally {
      this.save.disabled = false;
    }
  }
}

// The text as a terminal shows it, without colours: of overwritten lines, the last state.
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const plain = (text) =>
  text.replace(ESCAPES, "").replaceAll("\r\n", "\n").replace(/[^\n]*\r(?=[^\n])/g, "").replaceAll("\r", "\n").replace(CONTROLS, "\ufffd");

// Follows the state and log of a build or test (`kind`: "builds", "environment-tests") over the event
// stream, resuming at the offset after a break; without the stream, by polling.
export class Work {
  constructor({ kind, id, log, onState, onTrouble }) {
    this.kind = kind;
    this.id = id;
    this.log = log;
    this.onState = onState;
    this.onTrouble = onTrouble;
    this.offset = 0;
    this.failures = 0;
  }

  /** @returns {string} */
  get path() {
    return `${this.kind}/${encodeURIComponent(this.id)}`;
  }

  async start() {
    clearTimeout(this.timer);
    this.source?.close();
    this.over = false;
    try {
      await this.#read();
      this.failures = 0;
      this.onTrouble("");
      if (!this.over) this.#connect();
    } catch (error) {
      this.#failed(error);
    }
  }

  stop() {
    clearTimeout(this.timer);
    this.source?.close();
    this.over = true;
  }

  // Reads the current state and the new part of the log.
  async #read() {
    const state = await call(this.path);
    await this.#more();
    this.#state(state);
  }

  async #more() {
    for (;;) {
      const { text, next } = await call(/** @type {string} */ (`${this.path}/log`), { query: { offset: this.offset } });
      this.log.add(text);
      if (next === null || next === undefined || next <= this.offset) return;
      this.offset = next;
    }
  }

  #state(state) {
    this.over = state.state !== "waiting" && state.state !== "running";
    this.onState(state);
    if (this.over) this.log.say("The log is empty.");
  }

  #connect() {
    const source = new EventSource(apiUrl(`${this.path}/events`, { _xsrf: facts.xsrf, offset: this.offset || null }));
    this.source = source;
    const handler = (run) => (event) => source === this.source && run(JSON.parse(event.data));
    const name = this.kind === "builds" ? "build" : "test";
    source.addEventListener(
      "log",
      handler(({ text, next }) => {
        this.failures = 0;
        this.log.add(text);
        if (next) this.offset = next;
      }),
    );
    source.addEventListener(
      name,
      handler((state) => {
        this.failures = 0;
        this.onTrouble("");
        this.#state(state);
        if (!this.over) return;
        source.close();
        // The last part of the log.
        this.#more().catch(() => {});
      }),
    );
    source.addEventListener("error", () => {
      if (source !== this.source || this.over) return;
      source.close();
      this.#failed(new Error(""));
    });
  }

  #failed(error) {
    this.failures += 1;
    if (error.message) this.onTrouble(error.message);
    if (error.status === 403 || error.status === 404) return;
    this.timer = setTimeout(() => this.start(), Math.min(15000, 500 * 2 ** this.failures));
  }
}
