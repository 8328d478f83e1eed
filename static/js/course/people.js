// Who is in a course: the list, people added by name or file, and what was wrong with those names.

import { call } from "../api.js";
import { ask, tell } from "../dialog.js";
import { byId, el, fill, setText } from "../dom.js";
import { Table } from "../table.js";
import { count } from "../words.js";
import { at, names, when } from "./words.js";

const ORDER = ["instructor", "assistant", "student"];
const MOST = 900000; // characters that the API takes
const MOST_SHOWN = 400; // lines of the table; the file has all

export class People {
  // `changes`: whether the viewer may change the list.
  constructor(course, changes) {
    this.course = course;
    this.changes = changes;
    this.table = new Table(byId("people-list"), {
      label: "people",
      columns: [
        { head: "Name", cell: (one) => one.person },
        { head: "Is", cell: (one) => one.role },
        { head: "Comes from", cell: (one) => (one.source === "group" ? "the directory’s group" : `a list, by ${one.added_by || "the portal"}`) },
        { head: "Since", cell: (one) => when(one.added_at) },
        ...(changes ? [{ head: "", cell: (one) => this.#remover(one) }] : []),
      ],
    });
    if (!changes) return;
    byId("roster").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#add();
    });
    byId("roster-pick").addEventListener("click", () => byId("roster-file").click());
    byId("roster-file").addEventListener("change", () => this.#read());
  }

  async load() {
    try {
      const { items, group, group_error: error } = await call(at(this.course, "roster"));
      items.sort((a, b) => ORDER.indexOf(a.role) - ORDER.indexOf(b.role) || a.person.localeCompare(b.person, "en", { numeric: true }));
      const students = items.filter((one) => one.role === "student").length;
      const staff = items.length - students;
      setText(byId("people-count"), `${count(students, "student")}, ${staff} of the staff${group ? `; students of the group “${group}”` : ""}${items.length > MOST_SHOWN ? `; the first ${MOST_SHOWN} are shown, the file has all` : ""}`);
      this.table.show(items.slice(0, MOST_SHOWN), "Nobody is in this course.");
      if (error) fill(byId("people-list").querySelector("p") ?? el("p"), error);
    } catch (error) {
      setText(byId("people-count"), error.message);
    }
  }

  #remover(one) {
    if (one.source === "group") return el("span.portal-quiet", {}, "by the group");
    return el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "aria-label": `Remove ${one.person}`, onclick: () => this.#remove(one) }, "Remove");
  }

  async #remove({ person, role }) {
    const sure = await ask({ title: `Remove ${person}?`, text: `They are no longer ${role} here, and their session of this course ends. Their files stay.`, action: "Remove", danger: true });
    if (sure === null) return;
    await tell(async () => {
      await call(at(this.course, "roster"), { method: "DELETE", query: { person } });
      return `${person} is no longer in the course.`;
    });
    await this.load();
  }

  async #read() {
    const [file] = byId("roster-file").files;
    byId("roster-file").value = "";
    if (!file) return;
    if (file.size > MOST) {
      setText(byId("roster-problem"), "This file is too large for a roster.");
      return;
    }
    byId("roster-text").value = await file.text();
    byId("roster-text").focus();
  }

  async #add() {
    const form = byId("roster");
    const problem = byId("roster-problem");
    const text = form.elements.text.value;
    setText(problem, "");
    fill(byId("roster-report"));
    if (!text.trim()) {
      setText(problem, "Paste names first, or take a file.");
      form.elements.text.focus();
      return;
    }
    const button = form.querySelector(".btn-jupyter");
    button.disabled = true;
    try {
      const done = await call(at(this.course, "roster"), { method: "POST", body: { text, role: form.elements.role.value, replace: form.elements.replace.checked } });
      form.elements.replace.checked = false;
      this.#report(done);
      if (!done.unknown.length && !done.refused.length && !done.problems.length) form.elements.text.value = "";
      await this.load();
      } catch (error) {
      setText(problem, error.message);
    }
    button.disabled = false;
  }

  #report(done) {
    const lines = [
      done.added.length && `Added: ${names(done.added)}.`,
      done.there.length && `Were in it already: ${names(done.there)}.`,
      done.twice.length && `Stood there more than once: ${names(done.twice)}.`,
      done.removed.length && `Removed: ${names(done.removed)}.`,
      !done.checked && "The directory could not be asked whether these people exist.",
    ].filter(Boolean);
    const wrong = [
      done.unknown.length && `The directory does not know ${names(done.unknown, 20)}. They were not added.`,
      done.refused.length && `May not be this: ${names(done.refused, 20)}.`,
      ...done.problems.map((one) => `Line ${one.line}: ${one.message}`),
    ].filter(Boolean);
    fill(
      byId("roster-report"),
      el(
        "div.roster-report",
        { role: "status" },
        el("p", {}, el("strong", {}, count(done.added.length, "person was", "people were")), " added."),
        lines.length ? el("ul.plain", {}, lines.map((one) => el("li", {}, one))) : null,
        wrong.length ? el("ul.plain.seat-bad", {}, wrong.map((one) => el("li", {}, one))) : null,
      ),
    );
    byId("roster-report").focus();
  }
}
