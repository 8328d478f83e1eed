// The panel next to the grid: details of the GPU or node that is pointed at or selected, and the actions
// on the node.

import { call, may } from "./api.js";
import { confirmed } from "./dialog.js";
import { el, fill, hidden } from "./dom.js";
import { pill } from "./status.js";
import { GPU_STATES, UNKNOWN, capital, gpuSign, memory, percent } from "./words.js";

export class Panel {
  // `onClose()` gives the focus back to the grid; `onJob(id)` shows a job.
  constructor(place, model, { onClose, onJob }) {
    this.place = place;
    this.model = model;
    this.pinned = null;
    this.shown = null;
    this.control = null; // portal.models.cluster.rights.Rights, for users with permission
    this.onClose = onClose;
    this.onJob = onJob;
    place.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.pinned) {
        event.stopPropagation();
        this.close();
      }
    });
    this.draw();
  }

  // Shows `key` until the pointer is elsewhere, unless another item is pinned.
  point(key) {
    if (this.pinned || key === this.shown) return;
    this.shown = key;
    this.draw();
  }

  // Keeps showing `key`, and takes the focus.
  pin(key) {
    this.pinned = key;
    this.shown = key;
    this.draw();
    this.place.focus({ preventScroll: true });
  }

  close() {
    const key = this.pinned;
    this.pinned = null;
    this.shown = null;
    this.draw();
    this.onClose(key);
  }

  // Draws again after changes that touch what is shown.
  update(touched) {
    if (!this.shown) {
      if (touched.whole) this.draw();
      return;
    }
    const node = this.shown.split("/")[0];
    if (touched.whole || touched.gpus.has(this.shown) || touched.nodes.has(node)) this.draw();
  }

  draw() {
    const [name, index] = (this.shown ?? "").split("/");
    const node = this.model.nodes.get(name);
    const gpu = index === undefined ? null : this.model.gpus.get(this.shown);
    this.place.classList.toggle("panel-open", Boolean(this.pinned && node));
    if (!node || (index !== undefined && !gpu)) {
      this.place.replaceChildren(...this.#hint());
      return;
    }
    const focused = this.place.contains(document.activeElement) ? /** @type {any} */ (document.activeElement).dataset?.do : null;
    fill(
      this.place,
      el(
        "div.panel-head",
        el("h3", gpu ? `${name} · GPU ${gpu.index}` : name),
        this.pinned
          ? el("button.btn-close", { type: "button", "aria-label": "Close the details", dataset: { do: "close" }, onclick: () => this.close() })
          : null,
      ),
      gpu ? this.#gpu(gpu) : null,
      this.#node(node, Boolean(gpu)),
    );
    if (focused) this.place.querySelector(`[data-do="${focused}"]`)?.focus();
  }

  #hint() {
    return [
      el("p.portal-quiet", "Point at a GPU, or select it with the arrow keys, to see its job and user."),
      el(
        "ul.signs",
        { "aria-label": "Legend" },
        Object.entries(GPU_STATES).map(([state, { word, text }]) =>
          el(
            "li",
            { title: text },
            el(`span.gpu.gpu-${state}`, { "aria-hidden": "true" }, gpuSign({ state, utilization: state === "busy" ? 85 : 0 })),
            el("span", el("strong", capital(word)), hidden(` – ${text}`)),
          ),
        ),
      ),
      el("p.portal-quiet", "Numbers are GPU utilisation in percent. A ring marks your GPUs."),
    ];
  }

  #gpu(gpu) {
    const held = gpu.job_id !== null;
    const whose = gpu.mine ? "you" : (gpu.user ?? "another user");
    return [
      el(
        "p.panel-state",
        el(`span.gpu.gpu-${gpu.state}${gpu.mine ? ".gpu-mine" : ""}`, { "aria-hidden": "true" }, gpuSign(gpu)),
        el("span", el("strong", capital(GPU_STATES[gpu.state].word)), ` – ${GPU_STATES[gpu.state].text}`),
      ),
      facts([
        ["Type", gpu.type],
        held ? ["Job", el("button.as-link", { type: "button", dataset: { do: "job" }, onclick: () => this.onJob(gpu.job_id) }, gpu.job_id, hidden(" in the list"))] : null,
        held ? ["Held by", whose] : null,
        gpu.environment ? ["Environment", gpu.environment] : null,
        held || gpu.utilization !== null ? ["Utilisation", level(gpu.utilization, percent(gpu.utilization))] : null,
        held || gpu.memory_used !== null
          ? [
              "Memory",
              level(
                gpu.memory_total ? (100 * gpu.memory_used) / gpu.memory_total : null,
                gpu.memory_used === null
                  ? UNKNOWN
                  : `${memory(gpu.memory_used)}${gpu.memory_total ? ` of ${memory(gpu.memory_total)}` : ""}`,
              ),
            ]
          : null,
      ]),
      gpu.source === "simulated" ? el("p", el("span.badge.portal-simulated", "simulated readings")) : null,
      gpu.source === "session" ? el("p.portal-quiet", "Reported by the session itself.") : null,
    ];
  }

  #node(node, below) {
    return [
      below ? el("h4", `Node ${node.name}`) : null,
      el(
        "p.panel-state",
        el("span", pill(nodeState(node), capital(node.words)), node.reason ? ` ${node.reason}` : ""),
      ),
      facts([
        below || !node.gpus ? null : ["GPUs", `${node.gpus_allocated} of ${node.gpus} ${node.gpu_types.join(", ")} held`],
        node.shares.length ? ["GPU shares", node.shares.map((share) => `${share.at_most ? "up to " : ""}${share.used} of ${share.count} ${share.type} held`).join(", ")] : null,
        ["CPUs", `${node.cpus_allocated} of ${node.cpus} held`],
        ["Memory", `${memory(node.memory_allocated)} of ${memory(node.memory)} held`],
        ["Partitions", node.partitions.join(", ") || "none"],
        ["Slurm state", node.state],
      ]),
      ...this.#actions(node),
    ];
  }

  #actions(node) {
    if (!may("nodes:manage") || !this.control) return [];
    // What Slurm does not let the portal's account do is said before a click.
    const missing = this.control.nodes ? null : (this.control.missing.nodes ?? "The portal's Slurm account is not allowed to drain nodes.");
    const denied = missing ? { disabled: true, title: missing, "aria-describedby": "panel-rights" } : {};
    const button = (what, label, act) =>
      el("button.btn.btn-sm.btn-outline-contrast", { type: "button", dataset: { do: what }, onclick: act, ...denied }, label, hidden(` ${node.name}`));
    return [
      el(
        "div.panel-actions",
        node.drained ? null : button("drain", "Drain…", () => this.#drain(node.name)),
        node.drained || node.down ? button("resume", "Resume…", () => this.#resume(node.name)) : null,
      ),
      missing ? el("p.portal-quiet.panel-rights", { id: "panel-rights" }, missing) : null,
    ];
  }

  async #drain(name) {
    const field = { label: "Reason (visible to everyone)", required: true, maxlength: 200 };
    const question = { title: `Drain node ${name}?`, text: "No new jobs start on this node. Running jobs continue to their end.", action: "Drain", danger: true, field };
    await confirmed(question, (reason) => call(`nodes/${encodeURIComponent(name)}/drain`, { method: "POST", body: { reason } }));
  }

  async #resume(name) {
    const question = { title: `Resume node ${name}?`, text: "New jobs can start on this node again.", action: "Resume" };
    await confirmed(question, () => call(`nodes/${encodeURIComponent(name)}/resume`, { method: "POST", body: {} }));
  }
}

// The node's state in the table of states.
const nodeState = (node) => (node.down ? "down" : node.drained ? "drained" : node.asleep ? "off" : node.usable ? "free" : "held");

// A list of terms and values; rows that are null are omitted.
export function facts(rows) {
  return el("dl.facts", rows.filter(Boolean).flatMap(([term, value]) => [el("dt", term), el("dd", value)]));
}

// A bar with its value in words; no bar if the value is unknown.
export function level(value, words) {
  if (value === null || value === undefined) return el("span.unknown", words);
  const inner = el(`span.level-in${value > 100 ? ".level-over" : ""}`, { style: { width: `${Math.min(100, Math.max(0, value))}%` } });
  return el("span.level-row", el("span.level", { "aria-hidden": "true" }, inner), el("span", words));
}
