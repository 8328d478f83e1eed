// A course's page for its staff: the actions, and the content of the open tab.

import { call, loginEnded } from "../api.js";
import { ask, tell } from "../dialog.js";
import { byId, trouble } from "../dom.js";
import { Files } from "./files.js";
import { meetings } from "./meetings.js";
import { People } from "./people.js";
import { loadReadiness } from "./readiness.js";
import { showRoom } from "./room.js";
import { Starting } from "./starting.js";
import { pastStarts } from "./starts.js";
import { showSteps } from "./steps.js";
import { Term } from "./term.js";
import { usage } from "./usage.js";
import { at } from "./words.js";

export const facts = JSON.parse(byId("course-facts").textContent);
export const { name } = facts.course.course;

// The saved course, with the actions that the user may take.
let detail = { ...facts.course, may: [] };
export const kept = () => detail;
export function keep(fresh) {
  detail = fresh;
  showSteps(facts, detail);
}

async function load() {
  try {
    keep(await call(at(name)));
  } catch (error) {
    if (!loginEnded(error)) byId("troubles").append(trouble(error.message));
  }
}

// -- the tabs ------------------------------------------------------------------------------------

function overview() {
  const starting = new Starting(name, byId("start"), () => {});
  byId("starts").hidden = !facts.running;
  byId("start-all").addEventListener("click", () => starting.all());
  byId("rehearse").addEventListener("click", () => rehearse(starting));
  loadReadiness(name, byId("readiness"), byId("ready-words"));
  usage(name);
  if (byId("room-part")) showRoom(name, Boolean(facts.role));
  starting.follow();
}

async function rehearse(starting) {
  const { items } = await call(at(name, "roster")).catch(() => ({ items: [] }));
  const students = items.filter((member) => member.role === "student").length;
  const number = await ask({
    title: "Rehearse a start",
    text: "Starts this number of sessions as for a meeting, checks them, and stops them again. Other sessions are not affected.",
    action: "Rehearse",
    field: { label: "Number of sessions", required: true, value: String(Math.max(1, Math.min(30, students))), maxlength: 4 },
  });
  if (number === null) return;
  await tell(async () => {
    const start = await call(at(name, "starts"), { method: "POST", body: { kind: "rehearsal", number: Number(number) } });
    starting.follow(start.id);
    return "Rehearsal started.";
  });
}

function schedule() {
  meetings(name);
  pastStarts(name, detail.course.timezone);
  new Term(byId("term"), byId("term-words")).show(detail.course);
}

const loaded = load();
if (byId("readiness")) overview();
if (byId("people-list")) new People(name, facts.changes).load();
if (byId("meetings-list")) schedule();
if (byId("files-list")) {
  const files = new Files(name, facts);
  loaded.then(() => files.show(detail.course));
}
