// Collections of a folder from everyone in a course: the dialog that begins one, and which of them go on.

import { call } from "../api.js";
import { toast } from "../dialog.js";
import { el } from "../dom.js";
import { openForm } from "../forms.js";
import { count } from "../words.js";
import { at, names } from "./words.js";

const OTHER = "other";

const answerOr = (request, otherwise) => request.catch(() => otherwise);

// The folders in the students' homes that the portal knows: the course's own, those of its handouts, and those
// that were collected before.
async function knownFolders(course) {
  const [{ files }, { items }] = await Promise.all([
    answerOr(call(at(course, "handouts")), { files: [] }),
    answerOr(call(at(course, "collects")), { items: [] }),
  ]);
  const found = new Set([course, ...items.map(({ folder }) => folder)]);
  for (const { path } of files) {
    const parts = path.split("/");
    for (let depth = 1; depth < parts.length; depth += 1) found.add([course, ...parts.slice(0, depth)].join("/"));
  }
  return [...found].sort();
}

// Asks for a folder and begins to collect it; the dialog stays open with what was entered until that worked.
export async function collectFolder(course, done) {
  const folders = await knownFolders(course);
  const choice = el("select.form-select", { id: "collect-folder" }, [...folders.map((folder) => [folder, folder]), [OTHER, "Another folder…"]].map(([value, words]) => el("option", { value }, words)));
  const typed = el("input.form-control", { id: "collect-other", maxlength: 300, autocomplete: "off", spellcheck: "false", placeholder: `${course}/homework` });
  const other = el("div", { hidden: true }, el("label.form-label", { for: typed.id }, "Folder in the students’ home directory"), typed);
  choice.addEventListener("change", () => {
    other.hidden = choice.value !== OTHER;
    typed.required = !other.hidden;
    if (typed.required) typed.focus();
  });
  const dialog = openForm({
    id: "collect",
    title: "Collect a folder from everyone",
    text: "A dated copy is taken from every running session now, and from other sessions when they start.",
    content: [el("label.form-label", { for: choice.id }, "Folder"), choice, other],
    action: "Collect",
    first: choice,
    send: async () => {
      const folder = choice.value === OTHER ? typed.value.trim() : choice.value;
      await call(at(course, "collects"), { method: "POST", body: { folder } });
      dialog.close("yes");
      toast(`Collecting ${folder}. The files appear on the Files tab.`);
      done();
    },
  });
}

// A sentence on each collection that is not closed and to which some of `people` (null: all) have given nothing;
// "" if there is none, or if that is not known.
export async function stillCollecting(course, people) {
  const { items } = await answerOr(call(at(course, "collects")), { items: [] });
  const sentences = items
    .filter(({ closed_at: closed }) => !closed)
    .map(({ folder, missing }) => [folder, missing.filter((name) => !people || people.includes(name))])
    .filter(([, missing]) => missing.length)
    .map(([folder, missing]) => `${folder} is still being collected, and ${count(missing.length, "student has", "students have")} not given it yet (${names(missing)}): it is taken when they start their next session.`);
  return sentences.join(" ");
}
