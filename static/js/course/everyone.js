// Actions on all students of a course, or on the selected ones, with a result for each.

import { call } from "../api.js";
import { DANGER, MAIN, announce, button, byId, el, fill } from "../dom.js";
import { ask, perform, tell, toast } from "../dialog.js";
import { menu } from "../menu.js";
import { count, duration } from "../words.js";
import { collectFolder, stillCollecting } from "./collect.js";
import { at, names, person } from "./words.js";

const AT_ONCE = 6;

// Runs `work(name)` for each name in `list`, a few at a time; resolves to {person, done, message} of each.
export async function each(list, work) {
  const queue = [...list];
  const results = [];
  const worker = async () => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      try {
        const answer = await work(name);
        results.push({ person: name, done: true, message: answer?.message ?? "" });
      } catch (error) {
        results.push({ person: name, done: false, message: error.message });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results.sort((a, b) => a.person.localeCompare(b.person));
}

// A list of the reasons in `items` ({person, message}), each with the names of those concerned.
export function reasons(items, look = "") {
  const people = Map.groupBy(items, ({ message }) => message);
  return el(`ul.plain${look}`, [...people].map(([why, who]) => el("li", `${names(who.map((item) => item.person))}: ${why}`)));
}

// Shows the result; failures stay on the page with their reasons.
export function report(message, items) {
  const failed = items.filter((item) => !item.done);
  if (!failed.length) {
    toast(message);
    return;
  }
  announce(message);
  const note = el(
    "div.alert.alert-warning.trouble",
    { role: "group", "aria-label": "Failed actions" },
    el("p", el("strong", message)),
    reasons(failed),
    button("Close", () => note.remove()),
  );
  byId("troubles").append(note);
}

export class Everyone {
  // `course`: the page's facts; `starting` starts all; `onDone()` is called after an action.
  constructor(course, { starting, onDone }) {
    this.course = course;
    this.starting = starting;
    this.onDone = onDone;
    fill(
      byId("for-all"),
      button("Start all", () => this.startAll(), MAIN),
      button("Stop all…", () => this.stop(null), DANGER),
      menu(
        "all students",
        button("Extend all…", () => this.extend(null)),
        button("Message all…", () => this.message()),
        course.bare ? null : button("Hand out a file…", () => handOut(course.course, onDone)),
        course.bare ? null : button("Collect a folder…", () => collectFolder(course.course, onDone)),
      ),
    );
  }

  // Shows the buttons for the selected students; `clear()` clears the selection.
  chosen(list, clear) {
    const place = byId("chosen");
    place.hidden = !list.length;
    if (!list.length) return;
    fill(
      place,
      el("strong", `${count(list.length, "student")} selected`),
      button("Start", () => this.startSome(list)),
      button("Extend…", () => this.extend(list)),
      button("Stop…", () => this.stop(list), DANGER),
      button("Clear selection", clear),
    );
  }

  async startAll() {
    if (!this.course.running) {
      toast("The course is not running: it is not approved, or today is outside its dates.", true);
      return;
    }
    await this.starting.all();
    this.onDone();
  }

  async startSome(list) {
    const items = await each(list, (name) => call(person(this.course.course, name, "start"), { method: "POST", body: {} }));
    report(`${items.filter((item) => item.done).length} of ${count(items.length, "session")} are starting.`, items);
    this.onDone();
  }

  async stop(list) {
    const sessions = list ? `the sessions of ${names(list, 5)}` : "all sessions of this course";
    const collecting = await stillCollecting(this.course.course, list);
    const sure = await ask({ title: `Stop ${sessions}?`, text: `Unsaved work is lost. Saved files stay. ${collecting}`.trim(), action: list ? "Stop sessions" : "Stop all", danger: true });
    if (sure === null) return;
    await this.#all("stop-all", { people: list });
  }

  async extend(list) {
    const minutes = await ask({
      title: list ? `Extend the sessions of ${names(list, 5)}` : "Extend all sessions",
      text: "Each session is extended as far as the course, its partition and its account allow.",
      action: "Extend",
      field: { label: "Extend by", choices: this.course.minutes.map((number) => [String(number), duration(60 * number)]) },
    });
    if (minutes) await this.#all("extend-all", { people: list, minutes: Number(minutes) });
  }

  /** @param {"stop-all" | "extend-all"} verb @param {object} body */
  async #all(verb, body) {
    await tell(async () => {
      announce("Working through the sessions…");
      const answer = await call(at(this.course.course, verb), { method: "POST", body });
      report(answer.message, answer.items);
    });
    this.onDone();
  }

  async message() {
    const text = await ask({
      title: "Message to all",
      text: "JupyterLab shows the message in all sessions of this course for an hour, or until you withdraw it.",
      action: "Send",
      field: { label: "Message", rows: 3, required: true, maxlength: 1000 },
    });
    if (!text) return;
    await perform(call(at(this.course.course, "messages"), { method: "POST", body: { text } }), "JupyterLab shows your message.");
    this.onDone();
  }

}

// Lets the user choose a file, and hands it out unchanged.
export function handOut(course, done) {
  const input = el("input", { type: "file" });
  input.addEventListener("change", async () => {
    const [file] = input.files;
    const question = {
      title: `Hand out ${file.name}`,
      text: "The file appears in everyone’s course folder within seconds. Files that students changed are never overwritten.",
      action: "Hand out",
      field: { label: "File name in the course folder", required: true, value: file.name, maxlength: 200 },
    };
    const path = await ask(question);
    if (!path) return;
    await perform(call(at(course, "handouts"), { method: "POST", query: { path }, body: file }), `${path} was handed out.`);
    done();
  });
  input.click();
}
