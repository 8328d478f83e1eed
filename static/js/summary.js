// The cluster in a sentence, a bar and a legend that filters.

import { byId, el, setText } from "./dom.js";
import { GPU_STATES, capital, count, gpuSign } from "./words.js";

export function drawSummary(summary, chosen, onChoose) {
  const total = Object.values(summary.gpus).reduce((sum, number) => sum + number, 0);
  const free = summary.gpus.free ?? 0;
  const off = summary.nodes - summary.nodes_usable;
  const parts = [
    total ? `${free.toLocaleString("en")} of ${count(total, "GPU")} ${free === 1 ? "is" : "are"} free.` : "There are no GPUs.",
    off
      ? `${off.toLocaleString("en")} of ${count(summary.nodes, "node")} ${off === 1 ? "accepts" : "accept"} no jobs.`
      : `All ${count(summary.nodes, "node")} accept jobs.`,
    `${capital(count(summary.jobs_running, "job"))} ${summary.jobs_running === 1 ? "is" : "are"} running, ${summary.jobs_pending.toLocaleString("en")} ${summary.jobs_pending === 1 ? "is" : "are"} waiting`,
  ];
  const sessions = summary.sessions_running + summary.sessions_pending;
  parts[2] += sessions ? `; ${count(sessions, "of them is a portal session", "of them are portal sessions")}.` : ".";
  setText(byId("summary-words"), parts.join(" "));

  const bar = byId("bar");
  const legend = byId("legend");
  for (const [state, { word, text }] of Object.entries(GPU_STATES)) {
    const number = summary.gpus[state] ?? 0;
    let piece = bar.querySelector(`.gpu-${state}`);
    if (!piece) {
      piece = el(`div.bar-part.gpu-${state}`);
      bar.append(piece);
    }
    piece.hidden = !number;
    piece.style.flexGrow = number;
    let button = legend.querySelector(`[data-state="${state}"]`);
    if (!button) {
      button = el(
        "button.legend-one",
        { type: "button", dataset: { state }, title: capital(text), onclick: () => onChoose(button.getAttribute("aria-pressed") === "true" ? "" : state) },
        el(`span.gpu.gpu-${state}`, { "aria-hidden": "true" }, gpuSign({ state }, true)),
        el("strong"),
        ` ${word}`,
      );
      legend.append(button);
    }
    setText(button.querySelector("strong"), number.toLocaleString("en"));
    button.setAttribute("aria-pressed", String(chosen === state));
    button.hidden = !number && chosen !== state;
  }
  const types = Object.entries(summary.gpus_by_type).sort(([a], [b]) => a.localeCompare(b));
  setText(
    byId("types"),
    types.length > 1
      ? types
          .map(([type, states]) => {
            const all = Object.values(states).reduce((sum, number) => sum + number, 0);
            return `${type}: ${(states.free ?? 0).toLocaleString("en")} of ${all.toLocaleString("en")} free`;
          })
          .join(" · ")
      : "",
  );
}
