// Users that the Hub knows, page by page, with what an admin can do about them.

import { apiUrl, call, facts, loginEnded } from "./api.js";
import { answered, ask, confirmed } from "./dialog.js";
import { DANGER, button, byId, el, hidden, setText, showTrouble } from "./dom.js";
import { followForm, sortInAddress } from "./filters.js";
import { Pager } from "./pager.js";
import { openOther, stop, titleOf } from "./sessionview.js";
import { Table } from "./table.js";
import { capital, clock, count, day, exactly } from "./words.js";

const USUAL = "user"; // the role that all users have
const list = byId("list");
const pager = new Pager(byId("list-pager"), 50, load);
const table = new Table(list, {
  label: "list-title",
  key: (user) => user.name,
  ...sortInAddress("name", () => load(true)),
  columns: [
    { head: "Name", sort: "name", cell: (user) => el("strong", user.name) },
    { head: "Groups", wide: true, cell: (user) => user.groups.join(", ") || "–" },
    { head: "Roles", wide: true, cell: (user) => user.roles.filter((role) => role !== USUAL).join(", ") || "–" },
    { head: "Last seen", sort: "last_activity", cell: (user) => time(user.seen_at, clock) },
    { head: "Since", sort: "created", cell: (user) => time(user.created_at, day) },
    { head: "Sessions", number: true, cell: sessions },
    { head: "", wide: true, cell: actions },
  ],
});
let may = []; // what the Hub lets this admin change
const values = followForm(byId("filters"), () => load(true));

const time = (at, words) => (at ? el("span.nowrap", { title: exactly(at) }, words(at)) : "never");
const address = /** @type {(user: any) => `users/${string}`} */ (user) => `users/${encodeURIComponent(user.name)}`;

function sessions(user) {
  if (!user.sessions) return "–";
  const href = `${facts.prefix}sessions?user=${encodeURIComponent(user.name)}`;
  return el("a", { href }, String(user.sessions), hidden(` ${user.sessions === 1 ? "session" : "sessions"} of ${user.name}`));
}

function actions(user) {
  const does = (words, act, look = undefined) => button([words, hidden(` ${user.name}`)], () => act(user), look);
  const other = user.name !== facts.user;
  return el(
    "div.entry-actions",
    user.sessions && list.dataset.adminAccess && other ? does("Open session…", open) : null,
    user.sessions ? does("Stop session…", end) : null,
    other && may.includes("admin:users") ? does(user.admin ? "Remove admin…" : "Make admin…", change) : null,
    other && may.includes("delete:users") ? does("Delete…", remove, DANGER) : null,
  );
}

// One of the user's sessions that run or wait, chosen by the viewer if there are several.
async function chosen(user, action) {
  const page = await answered(call("sessions", { query: { user: user.name, ended: "false", limit: 100 } }));
  if (!page) return null;
  if (page.items.length < 2) return page.items[0] ?? null;
  const id = await ask({
    title: `Sessions of ${user.name}`,
    text: "Choose one.",
    action,
    field: {
      label: "Session",
      choices: page.items.map((session) => [session.id, `${titleOf(session)} ${session.server}, job ${session.job_id || "–"}: ${session.words}`]),
    },
  });
  return page.items.find((session) => session.id === id) ?? null;
}

async function end(user) {
  const session = await chosen(user, "Stop…");
  if (session) await stop(session, load);
}

async function open(user) {
  const session = await chosen(user, "Open…");
  if (session) await openOther(session);
}

async function change(user) {
  const admin = !user.admin;
  const question = {
    title: admin ? `Make ${user.name} an admin?` : `Remove ${user.name} from the admins?`,
    text: admin
      ? "An admin of the Hub can see and change everything of every user. The site’s login may decide again at the next sign-in."
      : "Admins that the site’s configuration or directory names are admins again at their next sign-in.",
    action: admin ? "Make admin" : "Remove admin",
    danger: true,
  };
  await confirmed(question, () => call(address(user), { method: "PATCH", body: { admin } }));
  load();
}

async function remove(user) {
  const question = {
    title: `Delete ${user.name}?`,
    text: "The portal forgets this user: tokens end, and schedules of runs pause. The account, files and ended sessions stay. A user who may still sign in can come back.",
    action: "Delete user",
    danger: true,
  };
  await confirmed(question, () => call(address(user), { method: "DELETE" }));
  load();
}

async function load(first = false) {
  if (first === true) pager.first();
  const { show, ...rest } = values;
  const query = { ...rest, ...(show ? { [show]: "true" } : {}), sort: table.sort };
  byId("list-csv").href = apiUrl("users.csv", query);
  try {
    const page = await pager.read((place) => call("users", { query: { ...query, ...place } }));
    may = page.may;
    setText(byId("list-count"), capital(count(page.total, "user")));
    table.show(page.items, "No users match these filters.");
    showTrouble(null);
  } catch (error) {
    if (!loginEnded(error)) showTrouble(error);
  }
}

load();
