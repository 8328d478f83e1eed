// The list of courses: for admins, the readiness of each request and the buttons to answer it.

import { call } from "../api.js";
import { ask, tell } from "../dialog.js";
import { byId, el, fill } from "../dom.js";
import { showReadiness } from "./readiness.js";
import { at } from "./words.js";

async function readiness(entry) {
  const place = entry.querySelector("[data-readiness]");
  try {
    showReadiness(place, null, await call(at(entry.dataset.course, "readiness")));
  } catch (error) {
    fill(place, el("p.portal-quiet", {}, error.message));
  }
  place.removeAttribute("aria-busy");
}

async function answer(entry, verb) {
  const { course, title } = entry.dataset;
  const refuse = verb === "refuse";
  const said = await ask({
    title: `${refuse ? "Refuse" : "Approve"} “${title}”?`,
    text: refuse ? "The instructor sees your reason, and can change the course and request approval again." : "Students can start sessions on the days of the course.",
    action: refuse ? "Refuse" : "Approve",
    danger: refuse,
    field: { label: refuse ? "Reason" : "Message to the instructor", required: refuse, rows: 3, maxlength: 2000 },
  });
  if (said === null) return;
  const done = await tell(async () => {
    const { number } = await call(at(course));
    await call(at(course, verb), { method: "POST", body: { number, answer: said } });
  });
  if (done) window.location.reload();
}

for (const entry of byId("requests")?.querySelectorAll("[data-course]") ?? []) {
  readiness(entry);
  for (const button of entry.querySelectorAll("[data-answer]")) button.addEventListener("click", () => answer(entry, button.dataset.answer));
}
