// The replicas of a model, living ones first, and what their handovers cost.

import { facts } from "../api.js";
import { byId, el, setText } from "../dom.js";
import { Table } from "../table.js";
import { clock, count, duration, exactly, gpuTime } from "../words.js";
import { statePill } from "./words.js";

const time = (at) => (at === null ? "–" : el("span.nowrap", { title: exactly(at) }, clock(at)));

export class Replicas {
  constructor() {
    this.table = new Table(byId("replicas"), {
      label: "replicas-title",
      key: ({ id }) => id,
      columns: [
        { head: "Replica", cell: (replica) => [el("span.first", replica.id.slice(0, 6)), replica.successor_of ? el("span.second", `follows ${replica.successor_of.slice(0, 6)}`) : null] },
        { head: "State", cell: state },
        { head: "Version", number: true, cell: ({ version }) => String(version) },
        { head: "Job", cell: job },
        { head: "Node", cell: ({ nodes }) => nodes.join(", ") || "–" },
        { head: "Ready since", cell: ({ ready_at: at }) => time(at) },
        { head: "Job ends", cell: ({ ends_at, ended_at }) => time(ended_at ?? ends_at) },
        { head: "Overlap", cell: ({ gpu_hours: hours, overlap }) => (overlap ? [duration(overlap), hours ? el("span.second", gpuTime(hours)) : null] : "–") },
      ],
    });
  }

  show(model) {
    const living = model.replicas.filter(({ state }) => state !== "ended");
    const overlaps = model.replicas.reduce((sum, { gpu_hours: hours }) => sum + hours, 0);
    const words = [living.length ? count(living.length, "replica") : "none runs", overlaps ? `handovers have cost ${gpuTime(overlaps)}` : ""];
    setText(byId("replicas-count"), words.filter(Boolean).join("; "));
    byId("replicas").removeAttribute("aria-busy");
    const rows = [...living, ...model.replicas.filter(({ state }) => state === "ended").slice(0, 10)];
    this.table.show(rows.map((replica) => ({ ...replica, expected: model.expected_at })), "No replica has run. A request wakes one.");
  }
}

// The page of its session has its log and use, while it lives.
function job({ job_id: id, session }) {
  if (!id) return "–";
  return session ? el("a", { href: `${facts.prefix}sessions/${encodeURIComponent(session)}` }, id) : id;
}

function state({ state: word, expected }) {
  const coming = (word === "waiting" || word === "loading") && expected !== null;
  return [statePill(word), coming ? el("span.second", `answers about ${clock(expected)}`) : null];
}
