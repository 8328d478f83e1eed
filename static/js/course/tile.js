// The tile of a student on the board.

import { now } from "../api.js";
import { el, icon } from "../dom.js";
import { duration, percent } from "../words.js";
import { ago, tileState } from "./words.js";

const ORDER = { failed: 1, waiting: 2, running: 3, none: 4 };

// Order: raised hands, the longest first; then failed, waiting, running.
export const urgency = (tile) => (tile.hand_at ? 0 : (ORDER[tile.state ?? "none"] ?? 5));
export function byNeed(a, b) {
  return urgency(a) - urgency(b) || (a.hand_at ?? 0) - (b.hand_at ?? 0) || byName(a, b);
}
export const byName = (a, b) => a.person.localeCompare(b.person, "en", { numeric: true });
export const byActivity = (a, b) => (a.last_activity ?? Infinity) - (b.last_activity ?? Infinity) || byName(a, b);
export const byUse = (a, b) => (a.gpu_use ?? Infinity) - (b.gpu_use ?? Infinity) || byName(a, b);

const base = (path) => path.split("/").at(-1);

// The activity of the session, in short lines.
export function doing(tile, at = now()) {
  const lines = [];
  if (tile.notebooks?.length) lines.push(["book", tile.notebooks.map(base).join(", ")]);
  // A server counts its own start as activity.
  if (tile.state === "running" && !tile.opened_at) lines.push(["clock", "not opened yet"]);
  else if (tile.last_activity) lines.push(["clock", `active ${ago(tile.last_activity, at)}`]);
  return lines;
}

export function gpuWords(tile) {
  if (!tile.gpus) return tile.cpus ? `${tile.cpus} CPU${tile.cpus === 1 ? "" : "s"}` : "";
  const held = `${tile.gpus} ${tile.gpu_type || "GPU"}${tile.gpus > 1 && !tile.gpu_type ? "s" : ""}`;
  return tile.gpu_use === undefined ? held : `${held} ${percent(tile.gpu_use)}`;
}

// The kernels in jobs of their own and the runs, in words; "" for none.
export function jobWords({ kernels, kernel_gpus: gpus, runs }) {
  const named = kernels ? `${kernels} kernel${kernels === 1 ? "" : "s"}` : "";
  const held = gpus ? `${named} with ${gpus} GPU${gpus === 1 ? "" : "s"}` : named && `${named}, waiting`;
  return [held, runs ? `${runs} run${runs === 1 ? "" : "s"}` : ""].filter(Boolean).join(" · ");
}

// Returns the tile's element. `chosen`: whether it is selected; `onOpen` and `onChoose(checked)` are
// called on clicks; `quick`: its buttons.
export function seat(tile, { chosen, onOpen, onChoose, quick }) {
  const state = tile.state ?? "none";
  const box = el("input.seat-box", { type: "checkbox", checked: chosen, "aria-label": `Select ${tile.person}`, onchange: () => onChoose(box.checked) });
  const help = tile.help;
  return el(
    `li.seat.seat-${state}${tile.hand_at ? ".seat-hand" : ""}`,
    { dataset: { person: tile.person } },
    el(
      "div.seat-head",
      box,
      el("button.seat-name", { type: "button", onclick: onOpen, "aria-haspopup": "dialog" }, tile.person),
      tileState(state),
    ),
    tile.hand_at ? el("p.seat-asks", icon("hand"), " ", tile.hand || "Asks for help.", el("span.portal-quiet", ` ${duration(now() - tile.hand_at)}`)) : null,
    help ? el("p.seat-help", icon("life-ring"), " ", help.state === "granted" ? `${help.helper} is helping until ${time(help.until)}` : `${help.helper} asked to help`) : null,
    state !== "running" && tile.words ? el(`p.seat-words${state === "failed" ? ".seat-bad" : ""}`, { title: tile.words }, tile.words) : null,
    state === "running"
      ? [
          ...doing(tile).map(([sign, text]) => el("p.seat-line", icon(sign), " ", text)),
          gpuWords(tile) ? el("p.seat-line", icon("microchip"), " ", gpuWords(tile)) : null,
          jobWords(tile) ? el("p.seat-line", icon("microchip"), " ", jobWords(tile)) : null,
          tile.gpu_use === undefined ? null : level(tile.gpu_use),
        ]
      : null,
    quick.length ? el("div.seat-quick", quick) : null,
  );
}

const level = (value) => el("span.seat-level", { "aria-hidden": "true" }, el("span", { style: { width: `${Math.max(0, Math.min(100, value))}%` } }));

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
export const time = (moment) => (moment ? CLOCK.format(moment * 1000) : "the end of the session");
