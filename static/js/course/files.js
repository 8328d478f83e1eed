// What a course hands out, and what it has collected.

import { apiUrl, call } from "../api.js";
import { ask, tell } from "../dialog.js";
import { bytes } from "../curate/words.js";
import { byId, el, fill, setText } from "../dom.js";
import { count } from "../words.js";
import { sendFile } from "./everyone.js";
import { at, names, when } from "./words.js";

const SOURCES = { none: "Files are handed out from this page.", git: "Files come from a git repository, and from this page.", folder: "Files come from a folder, and from this page." };

export class Files {
  constructor(course, facts) {
    this.course = course;
    this.staff = Boolean(facts.role);
    this.file = el("input", { type: "file", hidden: true, "aria-hidden": "true", tabindex: "-1", onchange: () => this.#upload() });
  }

  // Shows both.
  async show(course) {
    const [handouts, collects] = await Promise.all([this.#ask("handouts"), this.#ask("collects")]);
    if (!handouts && !collects) {
      setText(byId("files-words"), "The files of this course cannot be shown now.");
      return;
    }
    this.kept = course;
    setText(byId("files-words"), SOURCES[course.handouts?.kind ?? "none"]);
    fill(byId("files-list"), handouts ? this.#handouts(handouts) : null, collects ? this.#collects(collects) : null, this.file);
  }

  async #ask(what) {
    try {
      return await call(at(this.course, what));
    } catch {
      return null;
    }
  }

  #handouts(answer) {
    const { problem, revisions, files } = answer;
    return el(
      "div.files-one",
      {},
      el("h3", {}, "Handed out"),
      problem ? el("div.alert.alert-warning.trouble", {}, `${problem} ${files.length ? "What was handed out before stays." : ""}`) : null,
      answer.left_out ? el("p.portal-quiet", {}, answer.left_out) : null,
      files.length
        ? el("details", { open: files.length <= 12 }, el("summary", {}, `${count(files.length, "file")}, ${bytes(answer.size)}`), el("ul.plain.files-list", {}, files.map((one) => this.#file(one))))
        : el("p.portal-quiet", {}, "Nothing yet."),
      revisions.length ? el("p.portal-quiet", {}, "Last: ", revisions[0].message || revisions[0].revision.slice(0, 10), `, by ${revisions[0].by}, `, when(revisions[0].at)) : null,
      this.staff
        ? el(
            "div.entry-actions.course-steps",
            {},
            el("button.btn.btn-sm.btn-jupyter", { type: "button", onclick: () => this.file.click() }, "Hand out a file…"),
            this.kept.handouts?.kind !== "none" ? el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#refresh() }, "Look for changes now") : null,
          )
        : null,
    );
  }

  #file(one) {
    return el(
      "li",
      {},
      el("code", {}, one.path),
      el("span.portal-quiet", {}, ` ${bytes(one.size)}${one.uploaded ? ", from this page" : ""} `),
      one.uploaded && this.staff ? el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "aria-label": `No longer hand out ${one.path}`, onclick: () => this.#takeBack(one) }, "Take back") : null,
    );
  }

  async #takeBack(one) {
    const sure = await ask({ title: `No longer hand out ${one.path}?`, text: "Who has changed theirs keeps it.", action: "Take back", danger: true });
    if (sure === null) return;
    await tell(async () => {
      await call(at(this.course, "handouts"), { method: "DELETE", query: { path: one.path } });
      return "It is handed out no longer.";
    });
    this.show(this.kept);
  }

  #collects(answer) {
    const { items } = answer;
    return el(
      "div.files-one",
      {},
      el("h3", {}, "Collected"),
      items.length
        ? el("ul.entries", {}, items.map((one) => this.#collect(one)))
        : el("p.portal-quiet", {}, "Nothing yet."),
      this.staff ? el("div.entry-actions.course-steps", {}, el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#begin() }, "Collect a folder…")) : null,
    );
  }

  #collect(one) {
    const problems = one.given.filter((person) => person.message);
    return el(
      "li.entry",
      {},
      el(
        "div",
        {},
        el("p.entry-text", {}, el("code", {}, one.folder), ` from ${count(one.given.length - problems.length, "person", "people")}${one.size ? `, ${bytes(one.size)}` : ""}`),
        problems.length ? el("details", {}, el("summary", {}, `${problems.length} had nothing to give`), el("ul.plain", {}, problems.map((person) => el("li", {}, `${person.person}: ${person.message}`)))) : null,
        one.missing.length ? el("p.portal-quiet", {}, `Not yet: ${names(one.missing)}.`) : null,
        el("p.portal-facts", {}, el("span", {}, one.by), el("span", {}, when(one.at)), el("span", {}, one.closed_at ? "closed" : "still open")),
      ),
      this.staff
        ? el(
            "div.entry-actions",
            {},
            el("a.btn.btn-sm.btn-jupyter", { href: apiUrl(at(this.course, "collects", one.id, "download")).href, download: true }, "Download"),
            one.closed_at ? null : el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => this.#close(one) }, "Close"),
          )
        : null,
    );
  }

  async #upload() {
    const [file] = this.file.files;
    this.file.value = "";
    if (!file) return;
    const name = await ask({ title: `Hand out ${file.name}`, text: "It comes into everyone’s folder. What a student has changed is never overwritten.", action: "Hand out", field: { label: "Name of the file in their folder", required: true, value: file.name, maxlength: 200 } });
    if (!name) return;
    await tell(async () => {
      await sendFile(this.course, name, file);
      return `${name} is handed out.`;
    });
    this.show(this.kept);
  }

  async #refresh() {
    await tell(async () => {
      await call(at(this.course, "handouts", "refresh"), { method: "POST", body: {} });
      return "The newest files are handed out.";
    });
    this.show(this.kept);
  }

  async #begin() {
    const folder = await ask({ title: "Collect a folder from all", text: "A dated copy is taken from everyone who has a session, and from others once they have one.", action: "Collect", field: { label: "Folder", required: true, maxlength: 300 } });
    if (!folder) return;
    await tell(async () => {
      await call(at(this.course, "collects"), { method: "POST", body: { folder } });
      return `${folder} is being collected.`;
    });
    this.show(this.kept);
  }

  async #close(one) {
    await tell(async () => {
      await call(at(this.course, "collects", one.id, "close"), { method: "POST", body: {} });
      return "Nothing more is taken.";
    });
    this.show(this.kept);
  }
}
