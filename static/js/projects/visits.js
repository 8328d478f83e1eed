// Visits: who asks to open a session of this project, or has it open, and the question itself.

import { call } from "../api.js";
import { enter } from "../enter.js";
import { confirmed, perform } from "../dialog.js";
import { MAIN, button, byId, differs, el, fill, repaint } from "../dom.js";
import { Poller } from "../poller.js";
import { clock, count } from "../words.js";
import { pathOf } from "./words.js";

const EVERY = 5000;
const MINUTES = [5, 15, 30, 60];
const name = byId("project").dataset.name;
const place = byId("visits");
/** @type {`projects/${string}/visits`} */
const path = `${pathOf(name)}/visits`;
/** @type {any} */
let list = { visits: [], sessions: [], most_minutes: 0 };
const cells = new Map(); // of the table of work, by the session's key

// Visits say nothing of their own trouble: the page's next request does.
const poller = new Poller({ every: EVERY, ask: load, onTrouble: () => undefined });

async function load() {
  list = await call(path);
  show();
}

const keyOf = ({ user, server }) => `${user}/${server}`;

// The cell of a session in the table of work: a button, if the person can ask its owner to open it.
export function paintAsk(cell, { user, server }) {
  const key = keyOf({ user, server });
  cells.set(key, cell);
  const asks = list.sessions.some((session) => keyOf(session) === key) && !list.visits.some((visit) => keyOf(visit) === key);
  if (!differs(cell, asks)) return;
  fill(cell, asks ? button("Ask to open…", () => question(user, server), undefined, { "aria-label": `Ask ${user} to open their session` }) : null);
}

async function question(user, server) {
  const choices = MINUTES.filter((minutes) => minutes <= list.most_minutes).map((minutes) => [String(minutes), count(minutes, "minute")]);
  await confirmed(
    { title: `Ask ${user} to open their session?`, text: `${user} agrees or refuses in JupyterLab, sees that you are in, and can end it at any time. You act as ${user} there, with their files and account.`, action: `Ask ${user}`, field: { label: "For", choices, value: "15" } },
    (minutes) => call(path, { method: "POST", body: { user, server, minutes: Number(minutes) } }),
    `${user} is asked in JupyterLab, for 5 minutes.`,
  );
  poller.now();
}

function show() {
  for (const [key, cell] of cells) {
    if (!cell.isConnected) cells.delete(key);
    else paintAsk(cell, { user: key.slice(0, key.indexOf("/")), server: key.slice(key.indexOf("/") + 1) });
  }
  if (!differs(place, list.visits)) return;
  repaint(place, () => fill(place, list.visits.map(line)));
}

function line(visit) {
  const { user, visitor, state, until, id, yours } = visit;
  const granted = state === "granted";
  const words = yours
    ? granted ? `${visitor} can see and use your session until ${clock(until)}.` : `${visitor} asks to open your session: answer in JupyterLab.`
    : granted ? `You can see and use the session of ${user} until ${clock(until)}. ${user} sees this.` : `You have asked ${user} to open their session.`;
  return el(
    "div.alert.alert-info.project-visit",
    el("span", words),
    granted && !yours ? button("Open session", () => enter(/** @type {`projects/${string}/visits/${string}/enter`} */ (`${path}/${id}/enter`)), MAIN) : null,
    button(granted ? "End visit" : yours ? "Refuse" : "Cancel request", () => end(id)),
  );
}

async function end(id) {
  await perform(call(/** @type {`projects/${string}/visits/${string}/end`} */ (`${path}/${id}/end`), { method: "POST" }), "Ended.");
  poller.now();
}

export const startVisits = () => poller.now();
