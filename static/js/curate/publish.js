// Publishes a tested version to chosen users, or launches its preview first.

import { call } from "../api.js";
import { ask, tell } from "../dialog.js";
import { el } from "../dom.js";
import { sends, Wrong } from "../forms.js";
import { at, launchPage } from "./words.js";

const words = (text) => text.split(/[,\n]/).map((word) => word.trim()).filter(Boolean);

// A form that publishes version `number` of `name`; `done()` is called after it worked.
export function publishing({ name, number, groups = [], courses = [] }, done) {
  const id = `publish-${number}`;
  const chosen = groups.length ? "groups" : courses.length ? "courses" : "everyone";
  const radio = (value, label) => {
    const input = el("input", { type: "radio", name: id, value, id: `${id}-${value}` });
    input.checked = value === chosen;
    return el("label.check", { for: `${id}-${value}` }, input, ` ${label}`);
  };
  const field = (which, label, values) => {
    const input = el("input.form-control", { id: `${id}-${which}-names`, type: "text", autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-problem` });
    input.value = values.join(", ");
    return el("div", { dataset: { of: which } }, el("label.form-label", { for: input.id }, label), input);
  };
  const problem = el("p.form-problem", { id: `${id}-problem`, role: "alert" });
  const form = el(
    "form.card-form.publish",
    { "aria-label": `Publish version ${number}` },
    el(
      "fieldset.portal-part",
      {},
      el("legend", {}, "Visible to"),
      el("div.choices", {}, radio("everyone", "Everyone"), radio("groups", "Members of groups"), radio("courses", "Members of courses")),
    ),
    field("groups", "Groups, separated by commas", groups),
    field("courses", "Courses, separated by commas", courses),
    problem,
    el("button.btn.btn-jupyter", {}, "Publish"),
  );
  const which = () => form.elements[id].value;
  const fit = () => {
    for (const block of form.querySelectorAll("[data-of]")) block.hidden = block.dataset.of !== which();
  };
  form.addEventListener("change", fit);
  sends(form, problem, async () => {
    const to = which();
    const names = to === "everyone" ? [] : words(form.querySelector(`#${id}-${to}-names`).value);
    if (to !== "everyone" && !names.length) {
      throw new Wrong(`Enter at least one ${to === "groups" ? "group" : "course"}.`, form.querySelector(`#${id}-${to}-names`));
    }
    await call(at(name, "versions", number, "publish"), { method: "POST", body: { groups: to === "groups" ? names : [], courses: to === "courses" ? names : [] } });
    await tell(() => `Version ${number} of ${name} is published.`);
    done();
  });
  fit();
  return form;
}

// Creates the preview of a tested version, which only admins see, and opens its launch page.
export async function tryIt(name, number) {
  await tell(async () => {
    const answer = await call(at(name, "versions", number, "preview"), { method: "POST", body: {} });
    window.location.assign(launchPage(answer.name));
  });
}

// Runs an action on an environment after confirmation; resolves to whether it was done.
export async function verb(name, path, { title, text, action, field = null, danger = false, body = (_) => ({}), said }) {
  const given = await ask({ title, text, action, field, danger });
  if (given === null) return false;
  return tell(async () => {
    await call(at(name, ...path), { method: "POST", body: body(given) });
    return said;
  });
}
