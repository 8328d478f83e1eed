// Publishes, lists and withdraws announcements.

import { call, now } from "./api.js";
import { confirmed, tell } from "./dialog.js";
import { DANGER, button, byId, el, empty, setText } from "./dom.js";
import { sends, Wrong } from "./forms.js";
import { Pager } from "./pager.js";
import { pill } from "./status.js";
import { clock, count } from "./words.js";

const form = byId("announce");
const pager = new Pager(byId("list-pager"), 20, load);

// The value of a datetime-local field: local time without a time zone.
function local(date) {
  const shifted = new Date(date.getTime() - date.getTimezoneOffset() * 60000);
  return shifted.toISOString().slice(0, 16);
}

function clear() {
  form.reset();
  form.elements.start.value = local(new Date());
  form.elements.end.value = local(new Date(Date.now() + 86400000));
}

async function load() {
  try {
    const page = await pager.read((place) => call("announcements", { query: place }));
    setText(byId("list-count"), page.total ? count(page.total, "announcement") : "");
    byId("list").replaceChildren(
      page.items.length
        ? el("ul.entries", page.items.map(entry))
        : empty("There are no announcements yet."),
    );
  } catch (error) {
    setText(byId("list-count"), error.message);
  }
}

function entry(item) {
  const at = now() + 2; // an announcement withdrawn just now counts as ended
  const state = at < item.starts_at ? "planned" : at < item.ends_at ? "shown" : "over";
  const words = { planned: "Planned", shown: "Shown now", over: "Ended" };
  return el(
    `li.entry.entry-${state}`,
    el(
      "div",
      el("p.entry-text", item.text),
      el(
        "p.portal-facts",
        pill(state === "over" ? "ended" : state, words[state]),
        el("span", item.level === "warning" ? "Warning" : "Information"),
        el("span", `${clock(item.starts_at)} to ${clock(item.ends_at)}`),
        el("span", `by ${item.author}`),
      ),
    ),
    state === "over" ? null : button("Withdraw", () => withdraw(item), DANGER),
  );
}

async function withdraw(item) {
  const text = item.text.length > 200 ? `${item.text.slice(0, 200)}…` : item.text;
  const question = { title: "Withdraw this announcement?", text, action: "Withdraw", danger: true, keep: "Keep announcement" };
  await confirmed(question, () => call(`announcements/${item.id}`, { method: "DELETE" }), "Announcement withdrawn.");
  await load();
}

sends(form, byId("announce-problem"), async () => {
  const { text, level, start, end } = form.elements;
  const starts = new Date(start.value).getTime() / 1000;
  const ends = new Date(end.value).getTime() / 1000;
  if (ends <= starts) throw new Wrong("The end must be after the start.", end);
  await call("announcements", {
    method: "POST",
    body: { text: text.value, level: level.value, starts_at: starts, ends_at: ends },
  });
  clear();
  pager.first();
  await tell(() => "Announcement published.");
  await load();
});

clear();
load();
