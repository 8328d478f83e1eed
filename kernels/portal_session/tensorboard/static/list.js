// The page of a session's TensorBoards: the running ones, and a folder picker for a new one.

import { call, el, prefix, words } from "./api.js";

const byId = (id) => document.getElementById(id);
const EVERY = 3000; // milliseconds
const chosen = new Set();
let here = "";
let shown = "";

async function refresh() {
  try {
    if (!document.hidden) show((await call("running")).running);
  } catch (error) {
    byId("nothing").hidden = false;
    byId("nothing").textContent = error.message;
  }
}

function show(boards) {
  const now = JSON.stringify(boards);
  if (now === shown) return;
  shown = now;
  const focused = document.activeElement?.dataset?.key;
  byId("nothing").hidden = boards.length > 0;
  byId("nothing").textContent = "No TensorBoard is running.";
  byId("running").replaceChildren(...boards.map(item));
  if (focused) document.querySelector(`[data-key="${focused}"]`)?.focus();
}

function item(board) {
  const skipped = board.skipped.length
    ? el("p", { class: "quiet" }, `Skipped, because they lead outside your folders: ${board.skipped.join(", ")}`)
    : null;
  return el(
    "li",
    {},
    el(
      "div",
      { class: "board" },
      board.state === "ended"
        ? el("strong", {}, board.name)
        : el("a", { href: board.url, target: "_blank", "data-key": `open-${board.number}` }, board.name),
      el("p", { class: board.state === "ended" ? "trouble" : "quiet" }, words(board)),
      el("p", { class: "quiet" }, ...board.folders.map((folder) => el("code", {}, folder))),
      skipped,
    ),
    el(
      "button",
      {
        type: "button",
        "data-key": `stop-${board.number}`,
        "aria-label": `${board.state === "ended" ? "Remove" : "Stop"} ${board.name}`,
        onclick: (event) => stop(board, event.target),
      },
      board.state === "ended" ? "Remove" : "Stop",
    ),
  );
}

async function stop(board, button) {
  button.disabled = true;
  try {
    await call(`running/${board.number}`, { method: "DELETE" });
  } catch (error) {
    if (error.status !== 404) byId("trouble").textContent = error.message;
  }
  shown = "";
  await refresh();
}

async function browse(path) {
  byId("trouble").textContent = "";
  try {
    const found = await call(`folders?path=${encodeURIComponent(path)}`);
    here = found.path;
    byId("path").value = here;
    const into = (name, target, label) => el("button", { type: "button", class: "link", "aria-label": label, onclick: () => browse(target) }, name);
    const rows = found.folders.map((name) => {
      const target = `${here === "/" ? "" : here}/${name}`;
      const box = el("input", { type: "checkbox", "aria-label": `Select ${name}`, onchange: () => choose(target, box.checked) });
      box.checked = chosen.has(target);
      return el("li", {}, box, into(name, target, `Open folder ${name}`));
    });
    const above = found.parent ? [el("li", {}, into("..", found.parent, "Open parent folder"))] : [];
    const roots = found.roots.filter((root) => root !== here && found.parent === null).map((root) => el("li", {}, into(root, root, `Open folder ${root}`)));
    byId("folders").replaceChildren(...above, ...roots, ...rows);
    const files = found.event_files ? `${found.event_files} event file${found.event_files === 1 ? "" : "s"} in this folder. ` : "";
    byId("inside").textContent = files + (found.more ? `Only the first ${found.folders.length} folders are shown. Type the path of another folder.` : rows.length ? "" : "No subfolders.");
    showChosen();
  } catch (error) {
    byId("trouble").textContent = error.message;
  }
}

function choose(path, wanted) {
  if (wanted) chosen.add(path);
  else chosen.delete(path);
  showChosen();
}

function showChosen() {
  const rows = [...chosen].map((path) =>
    el("li", {}, el("code", {}, path), el("button", { type: "button", class: "link", "aria-label": `Deselect ${path}`, onclick: () => { choose(path, false); browse(here); } }, "×")),
  );
  byId("chosen").replaceChildren(...(rows.length ? rows : [el("li", { class: "quiet" }, "Current folder: ", el("code", {}, here))]));
}

byId("go").addEventListener("submit", (event) => {
  event.preventDefault();
  browse(byId("path").value);
});

byId("open").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("trouble").textContent = "";
  // Opened now: a browser allows new windows only during a click.
  const page = window.open("", "_blank");
  try {
    const folders = chosen.size ? [...chosen] : [byId("path").value || here];
    const board = await call("running", { method: "POST", body: { folders, name: byId("name").value || null } });
    if (page) page.location.replace(board.url);
    else location.assign(board.url);
    chosen.clear();
    byId("name").value = "";
    await browse(here);
  } catch (error) {
    page?.close();
    byId("trouble").textContent = error.message;
  }
  await refresh();
});

browse(document.body.dataset.folder);
refresh();
setInterval(refresh, EVERY);
document.addEventListener("visibilitychange", refresh);
