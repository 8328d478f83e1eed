// Buttons of a run's page, the main one first. A module adds its own: actions.push((run, refresh) => element or
// null); `refresh()` reads the run again, soon. Stopping and deleting are here.

import { call, facts } from "../api.js";
import { confirmed } from "../dialog.js";
import { el } from "../dom.js";
import { menu } from "../menu.js";
import { shortPath } from "../paths.js";

/** @type {((run: any, refresh: () => void) => (HTMLElement | null))[]} */
export const actions = [];

// A button of the run's page; its words are kept while the page is updated, and so is the focus.
export const actionButton = (words, onclick, look = "btn-outline-contrast") =>
  el(`button.btn.${look.split(" ").join(".")}`, { type: "button", onclick }, words);

actions.push((run, refresh) =>
  run.ended_at === null && run.mine ? actionButton("Stop run", () => stop(run, refresh), "btn-outline-danger portal-danger") : null,
);

// The first action that a run has; the others are in a menu, Delete last.
export function actionBar(run, refresh) {
  const [main, ...others] = actions.map((action) => action(run, refresh)).filter((button) => button !== null);
  if (main && !main.matches(".portal-danger")) main.classList.replace("btn-outline-contrast", "btn-jupyter");
  const last = run.ended_at === null || !run.mine ? null : actionButton("Delete run", () => remove(run), "portal-danger");
  return [main, menu(run.name, ...others, last)];
}

async function remove(run) {
  const question = {
    title: `Delete “${run.name}”?`,
    text: `The run, its points and its curves are deleted from the portal. Its files stay: ${shortPath(run.folder, run.user)}`,
    action: "Delete run",
    danger: true,
  };
  const deleted = await confirmed(question, () => call(`runs/${encodeURIComponent(run.id)}/record`, { method: "DELETE" }));
  if (deleted) window.location.assign(`${facts.prefix}runs`);
}

async function stop(run, refresh) {
  const text = "Waiting and running points are cancelled. Output written so far is kept.";
  await confirmed({ title: `Stop “${run.name}”?`, text, action: "Stop run", danger: true }, () => call(`runs/${encodeURIComponent(run.id)}`, { method: "DELETE" }));
  refresh();
}
