// One project: its state and budget, who works on what, and its members.

import { apiUrl, call, facts } from "../api.js";
import { confirmed } from "../dialog.js";
import { button, byId, differs, el, fill, setText, showTrouble } from "../dom.js";
import { openForm } from "../forms.js";
import { menu } from "../menu.js";
import { facts as factList } from "../panel.js";
import { Poller } from "../poller.js";
import { Row, input, select } from "../run/row.js";
import { pill } from "../status.js";
import { Table } from "../table.js";
import { clock, count, day, short } from "../words.js";
import { openProject } from "./form.js";
import { budgetWords, launchOf, names, pathOf } from "./words.js";

const EVERY = 5000;
const ROLES = ["member", "reader", "owner"];
const main = byId("project");
const { name } = main.dataset;
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });
/** @type {any} */
let project = null; // as the API has it

const work = new Table(byId("work"), {
  label: "work-title",
  key: ({ user, server }) => `${user}/${server}`,
  columns: [
    { head: "User", cell: ({ user }) => user },
    { head: "What", wide: true, cell: ({ kind, environment }) => [el("span.first", `${kind} ${environment}`)] },
    { head: "State", cell: ({ state }) => pill(state) },
    { head: "GPUs", number: true, cell: ({ gpus }) => String(gpus) },
    { head: "Since", cell: ({ submitted_at: at }) => clock(at) },
  ],
});
const members = new Table(byId("members"), {
  label: "members-title",
  key: ({ person }) => person,
  columns: [
    { head: "User", wide: true, cell: ({ person, source }) => [el("span.first", person), source === "group" ? el("span.second", "from the group of the directory") : null] },
    { head: "Role", cell: ({ role }) => role },
    { head: "GPU-hours", number: true, cell: ({ gpu_hours: hours }) => short(hours) },
    { head: "Since", cell: ({ added_at: at }) => day(at) },
    { head: "", cell: (member) => actionsOf(member) },
  ],
});

async function load() {
  const found = await call(pathOf(name));
  show(found);
}

function show(found) {
  project = found;
  showTrouble(null);
  drawHead();
  for (const place of ["work", "members"]) byId(place).removeAttribute("aria-busy");
  setText(byId("work-count"), project.work.length ? count(project.work.length, "job") : "");
  work.show(project.work, "Nothing waits or runs in this project now.");
  setText(byId("members-count"), count(project.members.length, "member"));
  members.show(project.members, "");
  byId("add-members").hidden = !may("members");
}

const may = (action) => project.may.includes(action);

function drawHead() {
  if (!differs(main, [project.number, project.may, project.budget, project.folder, project.problem, project.group_error, project.closed])) return;
  main.removeAttribute("aria-busy");
  const { title, description } = project.project;
  const works = project.state === "approved" && !project.closed && project.role;
  const alerts = [project.problem, project.closed, project.group_error && `The group of the directory could not be read: ${project.group_error}`];
  fill(
    main,
    el(
      "div.page-title",
      el("h1", title),
      el("div.page-actions", works ? el("a.btn.btn-jupyter", { href: launchOf(name) }, "Launch for this project") : null, ...decisions(), more()),
    ),
    el("p.portal-facts", pill(project.state), el("span", name), project.role ? el("span", `you are ${project.role === "owner" ? "an" : "a"} ${project.role}`) : null),
    alerts.filter(Boolean).map((text) => el("div.alert.alert-warning", text)),
    project.answer ? el("div.alert.alert-info", `${project.answered_by}: ${project.answer}`) : null,
    description ? el("p.project-purpose", description) : null,
    el("div.project-facts", factList(rows())),
  );
}

function rows() {
  const { account, budget, ends, environments, largest } = project.project;
  const spent = budget ? el("meter", { min: 0, max: budget, value: Math.min(project.budget.used, budget), "aria-label": "Used part of the budget" }) : null;
  const { path, exists } = project.folder;
  const folder = exists ? el("code", path) : exists === null ? `${path} does not answer now` : path ? `${path} does not exist yet, so sessions have no shared folder` : "This site has none.";
  return [
    ["Budget", [budgetWords(project.budget), " ", spent]],
    ["Account", account ?? "each member’s own"],
    ["GPUs of a member at once", String(largest.gpus)],
    ["Environments", environments.length ? environments.join(", ") : "all that a member sees"],
    ["Folder", folder],
    ends ? ["Last day", ends] : null,
  ];
}

/** @param {"approve" | "refuse" | "archive" | "restore"} action @param {any} body */
const step = (action, body) => call(/** @type {`projects/${string}/approve`} */ (`${pathOf(name)}/${action}`), { method: "POST", body: { number: project.number, ...body } });

/** @param {any} question @param {(text: string) => Promise<any>} request */
async function act(question, request, words = "Done.") {
  await confirmed(question, request, words);
  poller.now();
}

const decisions = () => [
  may("approve") ? button("Approve", () => act({ title: `Approve ${project.project.title}?`, action: "Approve project", field: { label: "Answer, which its owner reads", maxlength: 2000 } }, (answer) => step("approve", { answer }), "The project is approved."), "jupyter") : null,
  may("refuse") ? button("Refuse…", () => act({ title: `Refuse ${project.project.title}?`, action: "Refuse project", danger: true, field: { label: "Reason, which its owner reads", required: true, maxlength: 2000 } }, (answer) => step("refuse", { answer }), "The project is refused.")) : null,
];

function more() {
  const danger = "outline-danger.portal-danger";
  const handing = { title: "Hand the project over", text: "Another user becomes an owner, and you stay as a member.", action: "Hand over", field: { label: "User name of the new owner", required: true } };
  const giver = project.role === "owner" ? null : (project.members.find(({ role }) => role === "owner")?.person ?? null);
  return menu(
    project.project.title,
    may("edit") ? button("Change project…", () => openProject(project, () => poller.now())) : null,
    may("export") ? el("a", { href: apiUrl(`${pathOf(name)}/export`), download: "" }, "Export as YAML") : null,
    may("hand-over") ? button("Hand over…", () => act(handing, (person) => call(/** @type {`projects/${string}/hand-over`} */ (`${pathOf(name)}/hand-over`), { method: "POST", body: { person, giver } }), "The project is handed over.")) : null,
    may("restore") ? button("Restore…", () => act({ title: "Restore the project?", action: "Restore project" }, () => step("restore", {}), "The project is restored.")) : null,
    may("leave") ? button("Leave project…", leave, danger) : null,
    may("archive") ? button("Archive project…", () => act({ title: `Archive ${project.project.title}?`, text: "Nothing starts in it any more, and what runs is stopped after a warning. Nothing is deleted.", action: "Archive project", danger: true }, () => step("archive", {}), "The project is archived."), danger) : null,
  );
}

async function leave() {
  const question = { title: `Leave ${project.project.title}?`, text: "Your sessions in it are stopped after a warning. Your files in it stay.", action: "Leave project", danger: true };
  const left = await confirmed(question, () => call(/** @type {`projects/${string}/leave`} */ (`${pathOf(name)}/leave`), { method: "POST" }), "You have left the project.");
  if (left) window.location.assign(`${facts.prefix}projects`);
}

/** @param {string[]} people @param {any} role */
const put = (people, role) => call(/** @type {`projects/${string}/members`} */ (`${pathOf(name)}/members`), { method: "POST", body: { people, role } });

function actionsOf({ person, role }) {
  if (!project || !may("members")) return null;
  const others = ROLES.filter((other) => other !== role);
  return menu(
    person,
    ...others.map((other) => button(`Make ${other}`, () => act({ title: `Make ${person} ${other}?`, text: other === "reader" ? "Their sessions of the project are stopped after a warning: a reader sees its folder read-only." : "", action: `Make ${other}` }, () => put([person], other), `${person} is now ${other}.`))),
    button("Remove member…", () => act({ title: `Remove ${person}?`, text: "Their sessions of the project are stopped after a warning. Their files in it stay.", action: "Remove member", danger: true }, () => call(/** @type {`projects/${string}/members`} */ (`${pathOf(name)}/members`), { method: "DELETE", query: { person } }), `${person} is no longer a member.`), "outline-danger.portal-danger"),
  );
}

byId("add-members").addEventListener("click", () => {
  const people = new Row("User names", input("barbara, carl"), "Separated by commas or blanks.");
  const role = new Row("Role", select(ROLES.map((each) => [each, each])), "Readers see the folder and start nothing that is charged to the project.");
  const send = async () => {
    try {
      await put(names(people.value), role.value);
    } catch (error) {
      people.show(error.message);
      people.control.focus();
      return;
    }
    dialog.close();
    poller.now();
  };
  const dialog = openForm({ id: "add-people", title: "Add members", content: [people.node, role.node], action: "Add members", first: people.control, send });
  dialog.classList.add("project-fields");
});
poller.now();
