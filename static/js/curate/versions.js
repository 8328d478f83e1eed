// The versions of one environment: author, date, change note, actions, and differences.

import { call } from "../api.js";
import { perform, tell } from "../dialog.js";
import { byId, differs, el, fill, setText } from "../dom.js";
import { menu } from "../menu.js";
import { Pager } from "../pager.js";
import { Table } from "../table.js";
import { count } from "../words.js";
import { lines, packages } from "./diff.js";
import { publishing, tryIt, verb } from "./publish.js";
import { at, buildPage, origins, versionState, when } from "./words.js";


export class Versions {
  // `onEdit(version)`: the user edits from this version; `onChange()`: an action was done.
  constructor(name, { onEdit, onChange }) {
    this.name = name;
    this.onEdit = onEdit;
    this.onChange = onChange;
    this.items = [];
    this.current = null; // number of the published version
    // Without a pager, the page shows only the newest version.
    this.pager = byId("versions-pager") ? new Pager(byId("versions-pager"), 10, () => this.load()) : null;
    this.table = new Table(byId("versions"), {
      label: "versions-title",
      columns: [
        { head: "Version", cell: (version) => el("div", el("span.first", String(version.number)), version.number === this.current ? el("span.second", "published") : null) },
        { head: "State", cell: (version) => versionState(version.state) },
        { head: "Author", cell: (version) => version.author || "–" },
        { head: "Date", cell: (version) => when(version.at) },
        { head: "Origin", cell: (version) => el("div", origins[version.origin] ?? version.origin, version.base && version.base !== version.number - 1 ? el("span.second", `from version ${version.base}`) : null) },
        { head: "Change note", wide: true, cell: (version) => el("div", el("span.first.entry-text", version.comment || "–"), version.message ? el("span.second.why", version.message) : null) },
        { head: "", wide: true, cell: (version) => this.#actions(version) },
      ],
    });
    byId("compare")?.addEventListener("submit", (event) => {
      event.preventDefault();
      this.compare(byId("compare-old").value, byId("compare-new").value);
    });
  }

  async load() {
    const read = (query) => call(at(this.name, "versions"), { query });
    const page = await (this.pager ? this.pager.read(read) : read({ limit: 1 }));
    if (!differs(this, [page.items, this.current])) return;
    this.items = page.items;
    if (byId("versions-count")) setText(byId("versions-count"), page.total ? count(page.total, "version") : "");
    // Restore the focus: the rows are new elements.
    const focused = byId("versions").contains(document.activeElement) ? document.activeElement.id : "";
    this.table.show(page.items, "No versions yet.");
    if (focused) byId(focused)?.focus();
    if (byId("compare")) this.#offer(page.total);
  }

  #offer(total) {
    byId("compare").hidden = total < 2;
    if (total === this.total) return;
    this.total = total;
    for (const [id, usual] of /** @type {[string, number][]} */ ([["compare-old", 1], ["compare-new", 0]])) {
      const select = byId(id);
      const numbers = Array.from({ length: Math.min(total, 200) }, (_, at) => String(total - at));
      fill(select, numbers.map((number) => el("option", { value: number }, number)));
      select.value = numbers[usual] ?? numbers[0] ?? "";
    }
  }

  #actions(version) {
    const { number, state, environment } = version;
    const container = environment.kind === "container" && environment.source;
    const buttons = [];
    const add = (id, words, run) => buttons.push(el("button", { type: "button", id: `${id}-${number}`, "aria-label": `${words} (version ${number})`, onclick: run }, words));
    const published = version.published_at !== null;
    if (["draft", "failed"].includes(state) && container && !environment.image) add("build", state === "failed" ? "Build again" : "Build", () => this.build(number));
    if (["draft", "failed"].includes(state) && (!container || environment.image)) add("test", "Test", () => this.test(number));
    if (!published && (state === "ready" || (state === "draft" && environment.kind !== "container"))) {
      add("publish", "Publish", () => this.publish(version));
      add("try", "Launch preview", () => tryIt(this.name, number));
    }
    if (published && number !== this.current) add("rollback", "Roll back…", () => this.rollBack(number));
    if (version.build_id) buttons.push(el("a", { href: buildPage(version.build_id), "aria-label": `View build of version ${number}` }, "View build"));
    add("edit", "Edit this version", () => this.onEdit(version));
    // The next step is the button, and the main one of the page if the version is the newest.
    const [main, ...others] = buttons;
    const next = number === this.items[0].number && main.id !== `edit-${number}` && !published;
    main.className = `btn btn-sm btn-${next ? "jupyter" : "outline-contrast"}`;
    return el("div.entry-actions", main, menu(`version ${number}`, ...others));
  }

  async build(number) {
    await tell(async () => {
      const build = await call(at(this.name, "versions", number, "build"), { method: "POST", body: {} });
      window.location.assign(buildPage(build.id));
    });
  }

  async test(number) {
    await perform(call(at(this.name, "versions", number, "test"), { method: "POST", body: {} }), `The tests of version ${number} are under way.`);
    this.onChange();
  }

  publish({ number, environment }) {
    const form = publishing({ name: this.name, number, environment }, () => {
      fill(byId("publish"));
      this.onChange();
    });
    fill(byId("publish"), form);
    form.scrollIntoView({ block: "nearest" });
    form.querySelector("input").focus();
  }

  async rollBack(number) {
    const done = await verb(this.name, ["rollback"], {
      title: `Roll back to version ${number}?`,
      text: "Users launch this version from now on. Running sessions continue, and all versions are kept.",
      action: "Roll back",
      body: () => ({ number }),
      said: `${this.name} is rolled back to version ${number}.`,
    });
    if (done) this.onChange();
  }

  async compare(older, newer) {
    const place = byId("comparison");
    try {
      const changes = await call(at(this.name, "comparison"), { query: { old: older, new: newer } });
      fill(
        place,
        el("h3", `Changes from version ${older} to ${newer}`),
        lines(changes.lines, "The definitions"),
        el("h4", "Packages"),
        packages(changes.packages),
      );
    } catch (error) {
      fill(place, el("p.form-problem", { role: "alert" }, error.message));
    }
    place.focus();
  }
}
