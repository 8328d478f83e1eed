// The details of one point, in a part of the run's page: parameters, metrics, message, and the sections
// that other modules add.

import { call, now } from "../api.js";
import { byId, el, fill, hidden } from "../dom.js";
import { keepInAddress } from "../filters.js";
import { facts as factList } from "../panel.js";
import { metric, seconds, value } from "./view.js";
import { pill } from "../status.js";
import { exactly } from "../words.js";

// Sections of the panel, in their order: sections.push({title, show(place, point, run), close()}).
// `show` is called when a point opens and after each update, with the same `place` until the panel closes
// or shows another point; it returns false if the section has nothing to show. `close()`, which may be
// missing, is called then, to end what the section has begun.
/** @type {{title: string, show: (place: HTMLElement, point: any, run: any) => any, close?: () => void}[]} */
export const sections = [];

export class PointPanel {
  #places = new Map(); // of the sections, by section
  #back = null; // the element that opened the panel

  constructor(id, owner) {
    this.id = id;
    this.owner = owner;
    this.place = byId("point");
    const given = new URLSearchParams(window.location.search).get("point");
    this.number = /^\d{1,5}$/.test(given ?? "") ? Number(given) : null;
    this.body = el("div");
    this.title = el("h2", { id: "point-title" });
    fill(
      this.place,
      el(
        "div.panel-head",
        this.title,
        el("button.btn-close", { type: "button", "aria-label": "Close the point", onclick: () => this.close() }),
      ),
      this.body,
      (this.more = el("div.point-sections")),
    );
    this.place.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  // Opens a point and takes the focus.
  async open(number, run) {
    if (number !== this.number) this.#clear();
    this.#back = document.activeElement;
    this.number = number;
    keepInAddress({ point: String(number) });
    this.title.textContent = `Point ${number}`;
    this.place.hidden = false;
    this.place.focus();
    await this.update(run);
  }

  close() {
    this.#clear();
    this.number = null;
    this.place.hidden = true;
    keepInAddress({ point: "" });
    if (this.#back?.isConnected) this.#back.focus();
  }

  // Shows the point as it is now, if one is open.
  async update(run) {
    const { number } = this;
    if (number === null) return;
    const point = await call(`runs/${encodeURIComponent(this.id)}/points/${number}`, { query: { owner: this.owner } }).catch((error) => {
      if (error.status !== 404) throw error;
      return null; // the address names a point that the run does not have
    });
    if (this.number !== number) return; // closed, or another one, meanwhile
    if (!point) {
      this.close();
      return;
    }
    this.place.hidden = false;
    this.title.textContent = `Point ${number}`;
    fill(
      this.body,
      el("p.portal-facts", pill(point.state), point.cell ? el("span", `Cell ${point.cell} of ${point.cells ?? "?"}`) : null),
      point.message ? el("p.point-message", point.message) : null,
      el(
        "div.point-values",
        values("Parameters", point.parameters, value, "None reported."),
        values("Metrics", point.metrics, metric, "None reported."),
        el(
          "div",
          el("h3", "Execution"),
          factList([
            point.job ? ["Slurm job", point.job] : null,
            point.attempt > 1 ? ["Attempt", String(point.attempt)] : null,
            point.started_at === null ? null : ["Started", exactly(point.started_at)],
            point.ended_at === null ? null : ["Ended", exactly(point.ended_at)],
            point.started_at === null ? ["Time", "has not started"] : ["Time", seconds(point, now())],
          ]),
        ),
      ),
    );
    for (const section of sections) this.#section(section, point, run);
  }

  #section(section, point, run) {
    let place = this.#places.get(section);
    if (!place) {
      place = el("div");
      this.#places.set(section, place);
      this.more.append(el("section.point-section", el("h3", section.title, hidden(` of point ${point.number}`)), place));
    }
    place.parentElement.hidden = section.show(place, point, run) === false;
  }

  #clear() {
    for (const section of this.#places.keys()) section.close?.();
    this.#places.clear();
    fill(this.more);
    fill(this.body);
  }
}

const values = (title, given, shown, none) =>
  el(
    "div",
    el("h3", title),
    Object.keys(given).length
      ? factList(Object.keys(given).sort().map((name) => [name, shown(given[name])]))
      : el("p.portal-quiet", none),
  );
