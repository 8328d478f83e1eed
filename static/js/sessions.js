// The Sessions page: courses and named sessions that can be started, running and waiting sessions with
// live updates, and ended sessions page by page. Kernels and runs in jobs of their own stand apart.

import { apiUrl, call, facts, loginEnded, now } from "./api.js";
import { hideClusters, isWorker, showClusters } from "./clusters.js";
import { openOnClick } from "./course/open.js";
import { confirmed } from "./dialog.js";
import { DANGER, button, byId, el, empty, hidden, icon, setText, showTrouble } from "./dom.js";
import { followForm } from "./filters.js";
import { idleWords } from "./idle.js";
import { offer } from "./notify.js";
import { Pager } from "./pager.js";
import { Poller } from "./poller.js";
import { actions, details, efficiency, isLiving, link, ran, sessionFacts, state, suggestion, times, titleOf } from "./sessionview.js";
import { clock, count } from "./words.js";

const MOST = 100;
const EVERY = 10000;
const NAMES_EVERY = 60000;
// What "Show" means for the API.
const HAS_PAGE = { "": "true", jobs: "false", all: "" };
const pager = new Pager(byId("ended-pager"), 20, () => ended());
const poller = new Poller({ every: EVERY, ask: refresh, onTrouble: showTrouble });
const values = followForm(byId("filters"), () => ended(true));
let living = null; // ids of the live sessions, joined; null: not loaded yet

// The user whose sessions are shown. Viewers who may not see other users' sessions have no form: the API refuses them.
const asked = new URLSearchParams(window.location.search);
/** @type {any} */
const whose = byId("whose") ? followForm(byId("whose"), shown) : { user: asked.get("user") ?? "", all: asked.get("all") ?? "" };

function shown() {
  title();
  poller.now();
  ended(true);
}

function title() {
  const other = whose.user && whose.user !== facts.user;
  const words = other ? `Sessions of ${whose.user}` : whose.all ? "All sessions" : "Sessions";
  setText(byId("sessions-title"), words);
  for (const id of ["courses", "named"]) {
    if (byId(id)) byId(id).hidden = other || Boolean(whose.all);
  }
}

// The title of the course that the viewer's session belongs to, if the page has it.
function courseTitle(session) {
  const row = session.mine && document.querySelector(`#courses [data-server="${CSS.escape(session.server)}"]`);
  return row ? row.querySelector("h2").textContent : null;
}

// The name of a session's server, beside its title.
const named = (session) => (session.server ? el("span.portal-quiet", ` ${session.server}`) : null);

function card(session) {
  const taken = now();
  const when = el("span", times(session, taken));
  const title = courseTitle(session) ?? titleOf(session);
  const made = el(
    "li.entry.entry-session.entry-living",
    { dataset: { session: session.id } },
    el(
      "div",
      el("h3", link(session, title), named(session)),
      el("p.portal-facts", state(session), when, sessionFacts(session)),
      idleWords(session, ` ${title}`, () => poller.now()),
      suggestion(session),
      actions(session, () => poller.in(1000), { title }),
    ),
    session.started_at ? el("div.entry-side", efficiency(session)) : null,
  );
  made.tick = () => setText(when, times(session, taken));
  return made;
}

// A line that opens: what, when, how long and, of one that has ended, why.
function row(session) {
  const living = isLiving(session);
  return el(
    "li.entry.entry-row",
    { dataset: { session: session.id } },
    el(
      "details",
      el(
        "summary",
        el("span.row-name", icon("chevron-right"), el("strong", titleOf(session)), named(session)),
        el("span.portal-quiet", living ? times(session, now()) : clock(session.ended_at)),
        living ? null : el("span.portal-quiet", ran(session)),
        el("span.row-why", state(session), session.ending ? el("span.row-words", session.ending.words) : null),
      ),
      details(session),
    ),
    actions(session, () => poller.in(1000), { look: "btn-outline-contrast" }),
  );
}

// Shows the items, each made by `make`. The focus and what is open stay.
function list(place, items, make, otherwise) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const where = focused?.closest("[data-session]")?.dataset.session;
  const what = focused?.textContent;
  const open = new Set([...place.querySelectorAll("details[open]")].map((opened) => opened.parentElement.dataset.session));
  place.replaceChildren(
    items.length ? el(`ul.entries${make === row ? ".entries-dense" : ""}`, items.map(make)) : empty(otherwise),
  );
  place.removeAttribute("aria-busy");
  for (const id of open) place.querySelector(`[data-session="${CSS.escape(id)}"] > details`)?.setAttribute("open", "");
  if (!where) return;
  const same = [...place.querySelectorAll(`[data-session="${CSS.escape(where)}"] :is(a, button, summary)`)];
  same.find((item) => item.textContent === what)?.focus();
}

// Loads the live sessions, and the ended ones after a session was added or ended. The list stays
// unchanged while a dialog is open.
async function refresh() {
  if (document.querySelector("dialog[open], .more .show")) return;
  const query = { ...whose, ended: "false", limit: MOST };
  const [page, apart] = await Promise.all([
    call("sessions", { query: { ...query, has_page: "true" } }),
    call("sessions", { query: { ...query, has_page: "false" } }),
  ]);
  showTrouble(null);
  setText(byId("living-count"), page.total ? count(page.total, "session") : "");
  const ids = [...page.items, ...apart.items].map((session) => session.id).join();
  if (ids !== living) {
    if (living) ended();
    if (living !== null) namesPoller?.now();
    living = ids;
  }
  // Of a kernel or run, a warning of its end must be seen.
  const warned = apart.items.filter((session) => session.idle?.warned);
  const shown = [...page.items, ...warned];
  const others = shown.filter((session) => !session.course);
  list(byId("living"), [...shown.filter((session) => session.course), ...others], card, "No session is running or waiting.");
  showApart(apart.items);
  if (whose.user || whose.all) return hideClusters();
  own([...page.items, ...apart.items]);
  await showClusters([...page.items, ...apart.items], () => poller.in(1000));
}

// Kernels, runs and workers of clusters that wait or run, in one line that opens; the page of runs has their points.
function showApart(items) {
  const runs = items.filter((session) => session.options.run).length;
  const workers = items.filter(isWorker).length;
  const kernels = items.length - runs - workers;
  byId("apart").hidden = !items.length;
  const parts = Object.entries({ run: runs, kernel: kernels, worker: workers });
  const words = parts.filter(([, number]) => number).map(([noun, number]) => count(number, noun)).join(" and ");
  setText(byId("apart-words"), `${words} in ${items.length === 1 ? "a job of its own" : "jobs of their own"}`);
  list(byId("apart-list"), items, row, "");
}

// Updates what depends on the viewer's own live sessions.
function own(sessions) {
  offer(sessions.some((session) => session.state !== "running"));
  // The launch page leads to the default session while that is live.
  byId("sessions-start").hidden = sessions.some((session) => !session.server);
  for (const row of document.querySelectorAll("#courses .entry")) {
    // The session is listed below; staff still reach the live board here.
    const live = sessions.some((session) => session.server === row.dataset.server);
    const start = row.querySelector(".course-start");
    if (start) start.hidden = live;
    row.hidden = live && !row.querySelector(".course-board");
  }
}

// Named sessions that are not running.
async function servers() {
  const { items } = await call("servers");
  byId("named-list").replaceChildren(el("ul.entries", items.map(namedRow)));
}

function namedRow({ name, title: words }) {
  const start = `${facts.hub}spawn/${encodeURIComponent(facts.user)}/${encodeURIComponent(name)}`;
  return el(
    "li.entry",
    { dataset: { server: name } },
    el("div", el("h3", words)),
    el(
      "div.entry-actions",
      el("a.btn.btn-sm.btn-jupyter", { href: start }, "Start", hidden(` ${words}`)),
      button(["Remove", hidden(` ${words}`)], () => remove(name, words), DANGER),
    ),
  );
}

async function remove(name, words) {
  const question = { title: `Remove “${words}”?`, text: "Its files and ended sessions are kept.", action: "Remove", danger: true };
  await confirmed(question, () => call(`servers/${encodeURIComponent(name)}`, { method: "DELETE" }));
  namesPoller?.now();
}

async function ended(first = false) {
  if (first) pager.first();
  const query = { ...whose, text: values.text, has_page: HAS_PAGE[values.kind] };
  byId("sessions-csv").href = apiUrl("sessions.csv", query);
  try {
    const page = await pager.read((place) => call("sessions", { query: { ...query, ended: "true", ...place } }));
    setText(byId("ended-count"), page.total ? count(page.total, "session") : "");
    list(byId("ended"), page.items, row, values.text ? "No ended sessions match." : "There are no ended sessions yet.");
  } catch (error) {
    if (!loginEnded(error)) showTrouble(error);
  }
}

for (const row of document.querySelectorAll("#courses .entry")) {
  const start = row.querySelector(".course-start");
  if (start) openOnClick(start, row.dataset.course, row.querySelector("[role=status]"), {});
}
const namesPoller = byId("named") ? new Poller({ every: NAMES_EVERY, ask: servers }) : null;

title();
poller.now();
namesPoller?.now();
ended();
setInterval(() => document.querySelectorAll("#living .entry").forEach((entry) => entry.tick?.()), 1000);
