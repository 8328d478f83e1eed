// The button and the dialog that repeat a run on a schedule.

import { actionButton, actions } from "./actions.js";
import { call } from "../api.js";
import { answered, toast } from "../dialog.js";
import { el } from "../dom.js";
import { openForm, Wrong } from "../forms.js";
import { clock } from "../words.js";

export const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const EVENTS = [
  ["end", "Mail at the end of each run"],
  ["failure", "Mail at its first failed point"],
];

actions.push((run) => (run.mine ? actionButton("Repeat on a schedule…", () => schedule(run)) : null));

async function schedule(run) {
  const mail = await answered(call("notices"));
  if (mail === null) return;
  const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const at = el("input.form-control", { type: "time", id: "schedule-at", value: "02:00", required: true });
  const until = el("input.form-control", { type: "date", id: "schedule-until" });
  const days = DAYS.map((name, day) => box(`schedule-day-${day}`, name, true));
  const events = mail.available ? EVENTS.map(([event, words]) => box(`schedule-${event}`, words, false)) : [];
  const chain = run.after ? "The whole chain that ends with this run is repeated, in the same order." : "";
  const send = async () => {
    const chosen = days.flatMap(({ input }, day) => (input.checked ? [day] : []));
    if (!chosen.length) throw new Wrong("Choose a day.", days[0].input);
    const notify = /** @type {any} */ (events.flatMap(({ input }, index) => (input.checked ? [EVENTS[index][0]] : [])));
    const body = { run: run.id, at: at.value.slice(0, 5), days: chosen, timezone, until: until.value, notify };
    const made = await call("runs/schedules", { method: "POST", body });
    dialog.close();
    toast(`Schedule created. Next start: ${clock(made.next_at)}. Your schedules are listed on the Runs page.`);
  };
  const dialog = openForm({
    id: "schedule",
    title: `Repeat “${run.name}” on a schedule`,
    text: `Each time, a new run starts with the same source, points and resources. ${chain}`,
    content: [
      row("Time of day", at, `Time zone: ${timezone}`),
      el("fieldset.mb-2", el("legend.form-label.schedule-legend", "Days"), el("div.schedule-days", days.map(({ label }) => label))),
      row("Last day (optional)", until),
      ...events.map(({ label }) => label),
    ],
    action: "Repeat run",
    first: at,
    send,
  });
}

function row(words, input, help = "") {
  const note = help ? el("small.portal-quiet", { id: `${input.id}-help` }, help) : null;
  if (note) input.setAttribute("aria-describedby", note.id);
  return el("div.mb-2", el("label.form-label", { for: input.id }, words), input, note);
}

function box(id, words, checked) {
  const input = el("input", { type: "checkbox", id, checked });
  return { input, label: el("label.check", input, ` ${words}`) };
}
