// The list of courses: for admins, the readiness of each request and the buttons to answer it.

import { call } from "../api.js";
import { ask, tell } from "../dialog.js";
import { byId } from "../dom.js";
import { loadReadiness } from "./readiness.js";
import { REFUSAL } from "./steps.js";
import { at } from "./words.js";

async function answer(entry, verb) {
  const { course, title } = entry.dataset;
  const refuse = verb === "refuse";
  const said = await ask({
    title: `${refuse ? "Refuse" : "Approve"} “${title}”?`,
    text: "Students can start sessions on the days of the course.",
    action: "Approve",
    field: { label: "Message to the instructor", rows: 3, maxlength: 2000 },
    ...(refuse ? REFUSAL : {}),
  });
  if (said === null) return;
  const done = await tell(async () => {
    const { number } = await call(at(course));
    await call(at(course, verb), { method: "POST", body: { number, answer: said } });
  });
  if (done) window.location.reload();
}

for (const entry of byId("requests")?.querySelectorAll("[data-course]") ?? []) {
  loadReadiness(entry.dataset.course, entry.querySelector("[data-readiness]"));
  for (const button of entry.querySelectorAll("[data-answer]")) button.addEventListener("click", () => answer(entry, button.dataset.answer));
}
