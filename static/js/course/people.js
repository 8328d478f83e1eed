// The members of a course: the list, and the form that adds members by name or from a file.

import { call } from "../api.js";
import { confirmed } from "../dialog.js";
import { byId, el, fill, setText } from "../dom.js";
import { sends, Wrong } from "../forms.js";
import { Table } from "../table.js";
import { count } from "../words.js";
import { at, names, when } from "./words.js";

const ORDER = ["instructor", "assistant", "student"];
const MOST = 900000; // maximum length of the text for the API, in characters
const MOST_SHOWN = 400; // rows of the table; the CSV file has all

export class People {
  // `changes`: whether the viewer may change the list.
  constructor(course, changes) {
    this.course = course;
    this.changes = changes;
    this.table = new Table(byId("people-list"), {
      label: "people",
      columns: [
        { head: "Name", cell: (member) => member.person },
        { head: "Role", cell: (member) => member.role },
        { head: "Added by", cell: (member) => (member.source === "group" ? "directory group" : member.added_by || "the portal") },
        { head: "Since", cell: (member) => when(member.added_at) },
        ...(changes ? [{ head: "", cell: (member) => this.#remover(member) }] : []),
      ],
    });
    if (!changes) return;
    const roster = byId("roster");
    sends(roster, byId("roster-problem"), () => this.#add(), { button: roster.querySelector(".btn-jupyter") });
    byId("roster-pick").addEventListener("click", () => byId("roster-file").click());
    byId("roster-file").addEventListener("change", () => this.#read());
  }

  async load() {
    try {
      const { items, group, group_error: error } = await call(at(this.course, "roster"));
      items.sort((a, b) => ORDER.indexOf(a.role) - ORDER.indexOf(b.role) || a.person.localeCompare(b.person, "en", { numeric: true }));
      const students = items.filter((member) => member.role === "student").length;
      const staff = items.length - students;
      setText(byId("people-count"), `${count(students, "student")}, ${staff} staff${group ? `; students from the group “${group}”` : ""}${items.length > MOST_SHOWN ? `; the first ${MOST_SHOWN} are shown, the CSV file lists all` : ""}`);
      this.table.show(items.slice(0, MOST_SHOWN), "This course has no members.");
      if (this.changes && !students) byId("roster-more").open = true;
      if (error) fill(byId("people-list").querySelector("p") ?? el("p"), error);
    } catch (error) {
      setText(byId("people-count"), error.message);
    }
  }

  #remover(member) {
    if (member.source === "group") return el("span.portal-quiet", "managed by the group");
    return el("button.btn.btn-sm.btn-outline-contrast", { type: "button", "aria-label": `Remove ${member.person}`, onclick: () => this.#remove(member) }, "Remove");
  }

  async #remove({ person, role }) {
    const question = { title: `Remove ${person}?`, text: `They are no longer ${role} in this course, and their course session is stopped. Their files stay.`, action: "Remove", danger: true };
    await confirmed(question, () => call(at(this.course, "roster"), { method: "DELETE", query: { person } }), `${person} was removed from the course.`);
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
    const text = form.elements.text.value;
    fill(byId("roster-report"));
    if (!text.trim()) throw new Wrong("Enter user names or load a CSV file.", form.elements.text);
    const done = await call(at(this.course, "roster"), { method: "POST", body: { text, role: form.elements.role.value, replace: form.elements.replace.checked } });
    form.elements.replace.checked = false;
    this.#report(done);
    if (!done.unknown.length && !done.refused.length && !done.problems.length) form.elements.text.value = "";
    await this.load();
  }

  #report(done) {
    const lines = [
      done.added.length && `Added: ${names(done.added)}.`,
      done.there.length && `Already in the course: ${names(done.there)}.`,
      done.twice.length && `Listed more than once: ${names(done.twice)}.`,
      done.removed.length && `Removed: ${names(done.removed)}.`,
      !done.checked && "The names could not be checked against the directory.",
    ].filter(Boolean);
    const wrong = [
      done.unknown.length && `Not in the directory, so not added: ${names(done.unknown, 20)}.`,
      done.refused.length && `Not allowed to have this role: ${names(done.refused, 20)}.`,
      ...done.problems.map((problem) => `Line ${problem.line}: ${problem.message}`),
    ].filter(Boolean);
    fill(
      byId("roster-report"),
      el(
        "div.roster-report",
        { role: "status" },
        el("p", el("strong", count(done.added.length, "member")), " added."),
        lines.length ? el("ul.plain", lines.map((line) => el("li", line))) : null,
        wrong.length ? el("ul.plain.seat-bad", wrong.map((line) => el("li", line))) : null,
      ),
    );
    byId("roster-report").focus();
  }
}
