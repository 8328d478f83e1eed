// Handouts and collected folders of a course.

import { apiUrl, call } from "../api.js";
import { confirmed, perform } from "../dialog.js";
import { bytes } from "../curate/words.js";
import { MAIN, button, byId, el, fill, setText, trouble } from "../dom.js";
import { menu } from "../menu.js";
import { count } from "../words.js";
import { collectFolder } from "./collect.js";
import { handOut, reasons } from "./everyone.js";
import { at, names, when } from "./words.js";

const SOURCES = { none: "Files are handed out from this page.", git: "Files come from a git repository and from this page.", folder: "Files come from a folder and from this page." };

export class Files {
  constructor(course, facts) {
    this.course = course;
    this.staff = Boolean(facts.role);
  }

  // Shows handouts and collected folders.
  async show(course) {
    const [handouts, collects] = await Promise.all([this.#ask("handouts"), this.#ask("collects")]);
    if (!handouts && !collects) {
      setText(byId("files-words"), "The files of this course cannot be shown now.");
      return;
    }
    this.kept = course;
    setText(byId("files-words"), SOURCES[course.handouts?.kind ?? "none"]);
    fill(byId("files-list"), handouts ? this.#handouts(handouts) : null, collects ? this.#collects(collects) : null);
  }

  /** @returns {Promise<any>} */
  #ask(what) {
    return call(at(this.course, what)).catch(() => null);
  }

  #handouts(answer) {
    const { problem, revisions, files } = answer;
    return el(
      "div.files-one",
      el("h3", "Handed out"),
      problem ? trouble(`${problem} ${files.length ? "Files handed out earlier stay available." : ""}`) : null,
      answer.left_out ? el("p.portal-quiet", answer.left_out) : null,
      files.length
        ? el("details", { open: files.length <= 12 }, el("summary", `${count(files.length, "file")}, ${bytes(answer.size)}`), el("ul.plain.files-list", files.map((file) => this.#file(file))))
        : el("p.portal-quiet", "No files have been handed out."),
      revisions.length ? el("p.portal-quiet", "Last change: ", revisions[0].message || revisions[0].revision.slice(0, 10), `, by ${revisions[0].by}, `, when(revisions[0].at)) : null,
      this.staff
        ? el(
            "div.entry-actions.course-steps",
            button("Hand out a file…", () => handOut(this.course, () => this.show(this.kept)), MAIN),
            menu("the handouts", this.kept.handouts?.kind !== "none" ? el("button", { type: "button", onclick: () => this.#refresh() }, "Check for changes") : null),
          )
        : null,
    );
  }

  #file(file) {
    return el(
      "li",
      el("code", file.path),
      el("span.portal-quiet", ` ${bytes(file.size)}${file.uploaded ? ", from this page" : ""} `),
      file.uploaded && this.staff ? el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "aria-label": `Withdraw ${file.path}`, onclick: () => this.#takeBack(file) }, "Withdraw") : null,
    );
  }

  async #takeBack(file) {
    const question = { title: `Withdraw ${file.path}?`, text: "The file is no longer handed out. Files that students changed are kept.", action: "Withdraw", danger: true };
    await confirmed(question, () => call(at(this.course, "handouts"), { method: "DELETE", query: { path: file.path } }), "File withdrawn.");
    this.show(this.kept);
  }

  #collects({ items }) {
    return el(
      "div.files-one",
      el("h3", "Collected"),
      items.length
        ? el("ul.entries", items.map((collection) => this.#collect(collection)))
        : el("p.portal-quiet", "No folders have been collected."),
      this.staff ? el("div.entry-actions.course-steps", el("button.btn.btn-sm.btn-outline-contrast", { type: "button", onclick: () => collectFolder(this.course, () => this.show(this.kept)) }, "Collect a folder…")) : null,
    );
  }

  #collect(collection) {
    const { folder, given, missing, size } = collection;
    const problems = given.filter((person) => person.message);
    return el(
      "li.entry",
      el(
        "div",
        el("p.entry-text", el("code", folder), ` from ${count(given.length - problems.length, "person", "people")}${size ? `, ${bytes(size)}` : ""}`),
        problems.length ? el("div.seat-bad", { role: "group", "aria-label": "Problems" }, reasons(problems)) : null,
        missing.length ? el("p.portal-quiet", `Missing: ${names(missing)}.`) : null,
        el("p.portal-facts", el("span", collection.by), el("span", when(collection.at)), el("span", collection.closed_at ? "closed" : "open")),
      ),
      this.staff
        ? el(
            "div.entry-actions",
            el("a.btn.btn-sm.btn-outline-contrast", { href: apiUrl(at(this.course, "collects", collection.id, "download")).href, download: true }, "Download"),
            menu(`the collection of ${folder}`, collection.closed_at ? null : el("button", { type: "button", onclick: () => this.#close(collection) }, "Close collection")),
          )
        : null,
    );
  }

  async #refresh() {
    await perform(call(at(this.course, "handouts", "refresh"), { method: "POST", body: {} }), "The newest files were handed out.");
    this.show(this.kept);
  }

  async #close(collection) {
    await perform(call(at(this.course, "collects", collection.id, "close"), { method: "POST", body: {} }), "Collection closed.");
    this.show(this.kept);
  }
}
