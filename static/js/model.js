// Data of the cluster page: the board (portal.models.cluster.dashboard.Board), updated by changes.

import { call } from "./api.js";
import { byId } from "./dom.js";
import { natural } from "./sorting.js";

// Events omit default values. The page lists the defaults, Slurm's states, and classes of reasons to wait
// (portal.models.cluster.dashboard.page_facts).
const { defaults, states, reasons } = JSON.parse(byId("cluster-facts").textContent).items;
export { reasons, states };
const NAMES = ["user", "name", "account", "environment", "session_id", "work", "work_name", "work_id"];

// Events for all viewers have no names; the viewer's own items follow in a second event. Until then,
// items known to be the viewer's stay theirs.
function kept(before, item, same) {
  if (!before?.mine || item.mine || !same) return item;
  const names = NAMES.filter((name) => name in item && item[name] === null);
  return { ...item, ...Object.fromEntries(names.map((name) => [name, before[name]])), mine: true };
}
export const newerJob = (before, job) => kept(before, { ...defaults.job, ...job }, true);

export class Model {
  constructor() {
    this.stream = "";
    this.version = -1;
    this.nodes = new Map();
    this.gpus = new Map();
    this.of = new Map(); // node name => keys of its GPUs, by index
    this.summary = null;
    this.takenAt = null;
    this.error = "";
    this.telemetryError = "";
    this.telemetryAt = null;
    this.simulated = false;
  }

  // Replaces everything with a board.
  fill(board) {
    // Nodes with GPUs first: users look for them.
    this.nodes = new Map(
      Object.entries(board.nodes).sort(([a, { gpus: x }], [b, { gpus: y }]) => Number(!x) - Number(!y) || natural(a, b)),
    );
    this.gpus = new Map(Object.entries(board.gpus));
    this.of = new Map();
    for (const [key, gpu] of this.gpus) {
      if (!this.of.has(gpu.node)) this.of.set(gpu.node, []);
      this.of.get(gpu.node).push(key);
    }
    for (const keys of this.of.values()) {
      keys.sort((a, b) => this.gpus.get(a).index - this.gpus.get(b).index);
    }
    this.simulated = Boolean(board.simulated);
    this.#head(board);
  }

  // Applies changes (`own`: only the viewer's items). Returns the nodes and GPUs that they touch;
  // `whole` means that nodes or GPUs were added or removed, and the grid must be rebuilt.
  apply(changes, own = false) {
    const touched = { nodes: new Set(), gpus: new Set(), whole: false };
    for (const [name, node] of Object.entries(changes.nodes ?? {})) {
      if (!this.nodes.has(name)) touched.whole = true;
      this.nodes.set(name, { ...defaults.node, ...node });
      touched.nodes.add(name);
    }
    for (const [key, gpu] of Object.entries(changes.gpus ?? {})) {
      const before = this.gpus.get(key);
      if (!before && own) continue;
      if (!before) touched.whole = true;
      this.gpus.set(key, kept(before, { ...defaults.gpu, ...gpu }, before?.job_id === (gpu.job_id ?? null)));
      touched.gpus.add(key);
    }
    for (const name of changes.gone_nodes ?? []) touched.whole = this.nodes.delete(name) || touched.whole;
    for (const key of changes.gone_gpus ?? []) touched.whole = this.gpus.delete(key) || touched.whole;
    if (own) return touched;
    if (touched.whole) {
      this.fill({ ...changes, nodes: Object.fromEntries(this.nodes), gpus: Object.fromEntries(this.gpus), simulated: this.simulated });
    } else {
      this.#head(changes);
    }
    return touched;
  }

  #head(from) {
    this.stream = from.stream;
    this.version = from.version;
    if (from.summary) this.summary = { ...defaults.summary, ...from.summary };
    this.takenAt = from.taken_at;
    this.error = from.error ?? "";
    this.telemetryError = from.telemetry_error ?? "";
    this.telemetryAt = from.telemetry_at ?? null;
  }

  // The GPUs of a node, by index.
  gpusOf(node) {
    return (this.of.get(node) ?? []).map((key) => this.gpus.get(key));
  }

  // Every partition, GPU type and user on the board, sorted.
  /** @returns {any} */
  choices() {
    const found = { partitions: new Set(), types: new Set(), users: new Set() };
    for (const node of this.nodes.values()) {
      for (const partition of node.partitions) found.partitions.add(partition);
    }
    for (const gpu of this.gpus.values()) {
      found.types.add(gpu.type);
      if (gpu.user) found.users.add(gpu.user);
    }
    return Object.fromEntries(Object.entries(found).map(([name, set]) => [name, [...set].sort(natural)]));
  }
}

export const fetchBoard = (signal) => call("board", { signal });
