// Shows the progress until a TensorBoard answers, then opens it.

import { call, prefix, words } from "./api.js";

const number = document.body.dataset.number;
const byId = (id) => document.getElementById(id);
const EVERY = 700; // milliseconds

async function look() {
  let again = EVERY;
  try {
    const board = await call(`running/${number}`);
    if (board.state === "ready" || board.state === "ended") {
      location.replace(location.pathname + location.hash);
      return;
    }
    byId("words").textContent = words(board);
    const bar = byId("progress");
    if (board.total) {
      bar.max = board.total;
      bar.value = board.read;
    }
    byId("now").hidden = board.state !== "reading";
  } catch (error) {
    byId("words").textContent = error.message;
    if (error.status === 404) return;
    again = 4 * EVERY;
  }
  setTimeout(look, again);
}

async function openAgain() {
  try {
    const folders = JSON.parse(byId("folders").textContent);
    const board = await call("running", { method: "POST", body: { folders, name: byId("name").textContent } });
    await call(`running/${number}`, { method: "DELETE" });
    location.replace(`${prefix}${board.number}/`);
  } catch (error) {
    byId("words").textContent = error.message;
  }
}

// Turn on TensorBoard's automatic reload, so that curves of a running training update. A user's own
// setting is kept.
try {
  const key = "_tb_global_settings";
  if (localStorage.getItem(key) === null) localStorage.setItem(key, JSON.stringify({ autoReload: true }));
} catch {
  // No storage: TensorBoard starts with its own settings.
}

byId("again")?.addEventListener("click", openAgain);
if (byId("progress")) look();
