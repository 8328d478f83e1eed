// The dialog "Go to…": pages, actions and objects by name, on the service's pages and the Hub's. A combobox
// with a list (WAI-ARIA Authoring Practices): the focus stays in the field, the arrows choose.

import { el, fill, later, setText } from "./dom.js";
import { stored } from "./stored.js";

const GROUPS = {
  recent: "Recent",
  page: "Pages",
  action: "Actions",
  session: "Sessions",
  run: "Runs",
  course: "Courses",
  environment: "Environments",
  node: "Nodes",
};
const DELAY = 150; // ms after a key
const MOST_RECENT = 6;

// Opens the dialog of the button, which names the service's path and the user.
export function openDestinations(button) {
  if (document.querySelector("dialog.find")) return;
  const { service, user } = button.dataset;
  const input = /** @type {HTMLInputElement} */ (
    el("input.find-input", {
      role: "combobox",
      "aria-label": "Go to",
      "aria-autocomplete": "list",
      "aria-controls": "find-list",
      "aria-expanded": "false",
      autocomplete: "off",
      spellcheck: "false",
      maxlength: 100,
      placeholder: "Page, session, run, course, node or action",
    })
  );
  const list = el("div.find-list", { id: "find-list", role: "listbox", "aria-label": "Destinations", hidden: true });
  const status = el("p.find-status", { role: "status" });
  const dialog = /** @type {HTMLDialogElement} */ (el("dialog.find", { "aria-label": "Go to" }, input, list, status));
  let options = [];
  let asking = new AbortController();

  function choose(at) {
    options.forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
    if (options[at]) input.setAttribute("aria-activedescendant", options[at].id);
    else input.removeAttribute("aria-activedescendant");
    options[at]?.scrollIntoView({ block: "nearest" });
  }

  function show({ items, complete }) {
    const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = ({ title, detail }) => asked.every((word) => `${title} ${detail}`.toLowerCase().includes(word));
    const recent = recentOf(user).filter(has);
    const urls = new Set(recent.map((entry) => entry.url));
    const found = Map.groupBy(items.filter(({ url }) => !urls.has(url)), ({ kind }) => kind);
    const groups = [...(recent.length ? [["recent", recent]] : []), ...found];
    options = [];
    fill(list, groups.map(([group, entries]) => section(group, entries)));
    list.hidden = !options.length;
    input.setAttribute("aria-expanded", String(options.length > 0));
    choose(0);
    const words = options.length ? `${options.length} ${options.length === 1 ? "result" : "results"}` : "Nothing found";
    setText(status, `${words}.${complete ? "" : " Some are missing: the portal is slow to answer."}`);
  }

  function section(group, entries) {
    return el(
      "div.find-group",
      { role: "group", "aria-labelledby": `find-${group}` },
      el("div.find-title", { id: `find-${group}` }, GROUPS[group]),
      entries.map((entry) => {
        const made = el(
          "a.find-option",
          { id: `find-option-${options.length}`, role: "option", tabindex: -1, href: entry.url, onclick: () => remember(user, entry) },
          el("span", entry.title),
          entry.detail ? el("span.find-detail", entry.detail) : null,
        );
        options.push(made);
        return made;
      }),
    );
  }

  async function look() {
    asking.abort();
    asking = new AbortController();
    try {
      show(await find(service, input.value, asking.signal));
    } catch (error) {
      if (error.name !== "AbortError") setText(status, "The portal does not answer. Reload this page.");
    }
  }

  const soon = later(look, DELAY);
  input.addEventListener("input", soon);
  input.addEventListener("keydown", (event) => {
    const at = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && options.length) choose((at + step + options.length) % options.length);
    else if (event.key === "Enter") options[at]?.click();
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside it
  });
  dialog.addEventListener("close", () => {
    soon.cancel();
    asking.abort();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  look();
}

// As a visit ("no-cors" of the same origin): the Hub's pages have no XSRF token for the service, and a first
// visit leads through the login at the service, which asks nothing.
async function find(service, text, signal) {
  const url = new URL(`${service}api/v1/destinations`, window.location.origin);
  url.searchParams.set("text", text);
  const answer = await fetch(url, { mode: "no-cors", credentials: "same-origin", headers: { Accept: "text/html" }, signal });
  if (!answer.ok) throw new Error("refused");
  return await answer.json();
}

// Where this user went before from the dialog, in this browser; actions are not kept: one is "Log out".
const recentOf = (user) => stored(`portal-recent-${user}`, []);

function remember(user, { kind, title, detail, url }) {
  if (kind === "action") return;
  const others = recentOf(user).filter((entry) => entry.url !== url);
  const kept = [{ kind, title, detail, url }, ...others].slice(0, MOST_RECENT);
  localStorage.setItem(`portal-recent-${user}`, JSON.stringify(kept));
}
