// The live board of a course: a tile for each student, updated every few seconds while the page is visible.

import { call, facts, now } from "../api.js";
import { perform } from "../dialog.js";
import { announce, button, byId, el, fill, later, presses, setText } from "../dom.js";
import { keepInAddress } from "../filters.js";
import { Poller } from "../poller.js";
import { count, duration } from "../words.js";
import { Everyone } from "./everyone.js";
import { Person } from "./person.js";
import { Starting } from "./starting.js";
import { byActivity, byName, byNeed, byUse, seat } from "./tile.js";
import { at, when } from "./words.js";

const PAUSE = 3000; // milliseconds between two requests
const SORTS = { "": byNeed, name: byName, activity: byActivity, gpu: byUse };
const WHICH = ["hand", "running", "waiting", "failed", "none"];

const course = JSON.parse(byId("course-facts").textContent);
course.user = facts.user;
course.bare = !course.role; // an admin who is not on the course's staff
let board = course.board;
let tiles = board.tiles ?? [];
const query = new URLSearchParams(window.location.search);
const view = { which: query.get("which") ?? "", text: query.get("text") ?? "", sort: query.get("sort") ?? "" };
const chosen = new Set();
const shown = new Map(); // person → {element, text}
const hands = new Set(tiles.filter((tile) => tile.hand_at).map((tile) => tile.person));

const poller = new Poller({ every: PAUSE, ask: refresh, onTrouble: (error) => fresh("lost", error.message) });
const said = new Poller({ every: 20000, ask: messages });
const starting = new Starting(course.course, byId("start"), () => poller.now());
const person = new Person(course, () => poller.now());
const everyone = new Everyone(course, { starting, onDone: () => poller.now() });

const kind = (tile) => tile.state ?? "none";
const fits = (tile) => {
  if (view.which === "hand" && !tile.hand_at) return false;
  if (view.which && view.which !== "hand" && kind(tile) !== view.which) return false;
  const text = view.text.toLowerCase();
  return !text || [tile.person, tile.words, tile.hand, ...(tile.nodes ?? []), ...(tile.notebooks ?? [])].some((word) => word?.toLowerCase().includes(text));
};

// Draws the tiles that changed, without moving the focus.
function draw() {
  const list = tiles.filter(fits).sort(SORTS[view.sort] ?? byNeed);
  const place = byId("tiles");
  const active = document.activeElement;
  const held = place.contains(active) ? { person: active.closest("[data-person]")?.dataset.person, what: active.className } : null;
  const wanted = list.map((tile) => {
    const text = JSON.stringify(tile) + chosen.has(tile.person) + minute(tile);
    const there = shown.get(tile.person);
    if (there?.text === text) return there.element;
    const element = seat(tile, {
      chosen: chosen.has(tile.person),
      onOpen: () => person.open(tiles.find((other) => other.person === tile.person) ?? tile),
      onChoose: (on) => choose(tile.person, on),
      quick: person.quick(tile).filter(Boolean),
    });
    shown.set(tile.person, { element, text });
    return element;
  });
  const same = place.children.length === wanted.length && wanted.every((element, position) => place.children[position] === element);
  if (!same) {
    place.replaceChildren(...wanted);
    if (held) [...(place.querySelector(`[data-person="${CSS.escape(held.person ?? "")}"]`)?.querySelectorAll("button, input") ?? [])].find((control) => control.className === held.what)?.focus();
  }
  const empty = byId("tiles-empty");
  if (tiles.length) {
    empty.hidden = list.length > 0;
    setText(empty, "No students match.");
  }
  for (const place of document.querySelectorAll("[data-count]")) {
    const name = place.dataset.count;
    setText(place, String(name === "hand" ? (board.hands ?? 0) : name ? (board.counts?.[name] ?? 0) : tiles.length));
  }
  selected();
  person.follow(tiles);
}

// The ages on a tile are updated once a minute.
const minute = (tile) => (tile.last_activity || tile.hand_at ? Math.floor(now() / 60) : 0);

function choose(name, on) {
  if (on) chosen.add(name);
  else chosen.delete(name);
  const there = shown.get(name);
  if (there) there.text = ""; // redraw it the next time
  selected();
}

function selected() {
  everyone.chosen([...chosen].sort(), () => {
    chosen.clear();
    draw();
  });
}

function take(answer) {
  if (answer.same) {
    board = { ...board, at: answer.at, taken_at: answer.taken_at };
    return;
  }
  board = answer;
  tiles = answer.tiles ?? [];
  const there = new Set(tiles.map((tile) => tile.person));
  for (const name of chosen) if (!there.has(name)) chosen.delete(name);
  for (const name of shown.keys()) if (!there.has(name)) shown.delete(name);
  const raised = tiles.filter((tile) => tile.hand_at && !hands.has(tile.person));
  hands.clear();
  for (const tile of tiles) if (tile.hand_at) hands.add(tile.person);
  if (raised.length) announce(`${raised.map((tile) => tile.person).join(", ")} raised a hand.`);
}

function fresh(state, message = "") {
  const place = byId("fresh");
  const age = board.taken_at ? now() - board.taken_at : null;
  const stale = Boolean(board.error);
  place.className = `fresh fresh-${state === "lost" ? "lost" : stale ? "stale" : "live"}`;
  setText(byId("fresh-text"), state === "lost" ? message : stale ? `${board.error} Last update ${duration(age ?? 0)} ago.` : `live${board.simulated ? ", simulated GPU use" : ""}`);
}

async function refresh() {
  take(await call(at(course.course, "board"), { query: { version: board.version } }));
  draw();
  fresh("live");
}

const press = presses(byId("which"), "which", (which) => turn({ which }));
byId("find").addEventListener("input", later(() => turn({ text: byId("find").value.trim() }), 150));
byId("sort").addEventListener("change", () => turn({ sort: byId("sort").value }));

function turn(changes = {}) {
  Object.assign(view, changes);
  if (!WHICH.includes(view.which)) view.which = "";
  press(view.which);
  keepInAddress(view);
  draw();
  if (changes.which !== undefined || changes.text !== undefined) announce(`${count(byId("tiles").children.length, "student")} shown.`);
}
byId("find").value = view.text;
byId("sort").value = view.sort in SORTS ? view.sort : "";

// Lists the current messages, each with a button to withdraw it.
async function messages() {
  try {
    const { items } = await call(at(course.course, "messages"));
    const live = items.filter((message) => message.ends_at > now());
    byId("said").hidden = !live.length;
    fill(
      byId("messages"),
      live.map((message) =>
        el(
          "li.entry",
          el("div", el("p.entry-text", message.text), el("p.portal-facts", el("span", message.by), el("span", "until ", when(message.ends_at)))),
          button("Withdraw", async () => {
            await perform(call(at(course.course, "messages", String(message.id)), { method: "DELETE" }), "Message withdrawn.");
            said.now();
          }),
        ),
      ),
    );
  } catch {
    byId("said").hidden = true;
  }
}

// Reads the course's rules for help, and why help is off if it is.
async function policy() {
  if (course.bare) return;
  try {
    const answer = await call(at(course.course, "help"));
    course.whyOff = answer.why_off;
    course.help = answer.policy;
    course.help_minutes = answer.most_minutes;
  } catch {
    course.whyOff = "";
  }
}

turn();
fresh("live");
poller.now();
policy();
said.now();
starting.follow();
