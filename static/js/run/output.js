// The output of a point in its panel: the log of a script or the cells of a notebook, as the point's job
// sends them while somebody looks. All of it is text.

import { call } from "../api.js";
import { el, fill, hidden, setText } from "../dom.js";
import { clock } from "../words.js";
import { CellList } from "./cells.js";
import { KernelConsole } from "./kernel_console.js";
import { sections } from "./point.js";
import { Poller } from "../poller.js";

const EVERY = 2000;
const LAST = 5; // times that it looks once more after the end: a kernel may be kept
const NEAR = 24; // within this many pixels counts as the end

class PointOutput {
  constructor(place, run, number) {
    this.run = run;
    this.number = number;
    this.path = `runs/${encodeURIComponent(run.id)}/points/${number}`;
    this.output = null;
    this.following = true;
    this.words = el("p.portal-quiet");
    this.rank = el("select.form-select.form-select-sm", { "aria-label": "Rank", hidden: true, onchange: () => this.#choose() }, el("option", { value: "0" }, "Rank 0"));
    this.follow = button("Follow", () => this.#turn(!this.following));
    this.follow.setAttribute("aria-pressed", "true");
    this.save = button("Download text", () => this.#save());
    this.box = el("div.portal-log.point-output", { tabindex: "0", role: "region", "aria-label": "Output" });
    this.open = el("a.btn.btn-sm.btn-outline-contrast", "Open in JupyterLab", hidden(` the output of point ${number}`));
    this.log = el("pre");
    this.cells = new CellList();
    this.console = new KernelConsole(this.path, () => this.poller.now());
    fill(place, el("div.output-head", this.words, el("div.entry-actions", this.rank, this.follow, this.save, this.open)), this.box, this.console.place);
    this.box.addEventListener("scroll", () => this.#scrolled());
    this.poller = new Poller({ every: EVERY, ask: () => this.#load(), onTrouble: (error) => setText(this.words, error.message) });
  }

  // Shows what is known of the point, and looks for more as long as it runs.
  update(point) {
    const before = this.state;
    this.state = point.state;
    this.attempt = point.attempt;
    if (before === point.state) return;
    this.left = this.run.ended_at === null ? LAST : 0;
    this.poller.now();
  }

  close() {
    this.poller.stop();
  }

  async #load() {
    const rank = Number(this.rank.value);
    const answer = await call(/** @type {`runs/${string}/points/${string}/output`} */ (`${this.path}/output`), { query: { rank: rank || undefined } });
    const { at, kernel, opener } = answer;
    this.#offer(answer.output?.ranks ?? 0);
    const output = answer.output?.rank === rank ? answer.output : null;
    this.console.show(kernel);
    this.open.setAttribute("href", `${opener}?${new URLSearchParams({ path: this.#file() })}`);
    const runs = this.state === "running";
    this.follow.hidden = !runs;
    this.save.hidden = this.box.hidden = !output;
    this.open.hidden = this.state === "waiting";
    if (output) this.#show(output);
    setText(this.words, this.#about(output, at));
    return runs || kernel || this.state === "waiting" || this.left-- > 0 ? EVERY : null;
  }

  // Offers the ranks of a script that has several.
  #offer(ranks) {
    if (this.rank.length < ranks) fill(this.rank, Array.from({ length: ranks }, (_, rank) => el("option", { value: String(rank), selected: rank === Number(this.rank.value) }, `Rank ${rank}`)));
    this.rank.hidden = this.rank.length < 2;
  }

  #choose() {
    this.output = null;
    this.left = this.run.ended_at === null ? LAST : 0;
    this.poller.now();
  }

  #show(output) {
    const first = this.output === null;
    this.output = output;
    if (output.log === null) {
      if (this.cells.place.parentElement !== this.box) fill(this.box, this.cells.place);
      this.cells.show(output);
      if (first || this.state === "running") this.#toTheCell(first);
      return;
    }
    if (this.log.parentElement !== this.box) fill(this.box, this.log);
    setText(this.log, (output.cut ? `[The beginning is in ${this.#file().replace(/.*\//, "")}.]\n` : "") + output.log);
    if (this.following || first) this.box.scrollTop = this.box.scrollHeight;
  }

  // Scrolls to the cell that counts: the running one as it grows, the failed one once. That takes the
  // focus if the panel still has it since it was opened.
  #toTheCell(first) {
    const { current, failed } = this.cells;
    if (!current) return;
    if (failed ? !first : !this.following) return;
    const end = current.offsetTop + current.offsetHeight - this.box.clientHeight + NEAR;
    this.target = Math.min(Math.max(0, failed ? Math.min(current.offsetTop - NEAR, end) : end), this.box.scrollHeight - this.box.clientHeight);
    this.box.scrollTop = this.target;
    if (failed && document.activeElement?.id === "point") current.focus();
  }

  // Somebody who scrolls up reads; at the end, the view follows again.
  #scrolled() {
    const at = this.output?.log === null ? (this.target ?? 0) : this.box.scrollHeight - this.box.clientHeight;
    const following = this.box.scrollTop >= at - NEAR;
    if (following !== this.following) this.#turn(following, false);
  }

  #turn(on, scroll = true) {
    this.following = on;
    this.follow.setAttribute("aria-pressed", String(on));
    if (!on || !scroll) return;
    if (this.output?.log === null) this.#toTheCell(false);
    else this.box.scrollTop = this.box.scrollHeight;
  }

  #about(output, at) {
    if (this.state === "waiting") return output ? `The point is waiting for its next job. As of ${clock(at)}.` : "The point has not started.";
    if (!output && this.state === "running") return "Waiting for the output: the point’s job sends it within half a minute.";
    if (!output) return "The output is only in the run’s files: open it in JupyterLab.";
    const lines = output.left_out ? ` ${output.left_out} cells farther away are left out.` : "";
    return `As of ${clock(at)}.${lines}`;
  }

  // The path of the file: a later attempt has a folder of its own.
  #file() {
    const again = this.attempt > 1 ? `-${this.attempt}` : "";
    const rank = Number(this.rank.value);
    const log = rank ? `rank-${rank}.log` : "output.log";
    const name = this.run.source.endsWith(".py") ? log : "output.ipynb";
    return `${this.run.folder}/${String(this.number).padStart(4, "0")}${again}/${name}`;
  }

  #save() {
    const text = this.output.log ?? this.cells.text();
    const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    el("a", { href: url, download: `${this.run.name}-${this.number}.txt` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  }
}

const button = (words, onclick) => el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick }, words);

let shown = null; // the output in the panel

sections.push({
  title: "Output",
  show(place, point, run) {
    if (!run.mine) return false; // it is sent to the run's user only
    if (!place.firstChild) {
      shown?.close();
      shown = new PointOutput(place, run, point.number);
    }
    shown.update(point);
  },
  close() {
    shown?.close();
    shown = null;
  },
});
