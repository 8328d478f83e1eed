// Publishes a tested version to chosen users, or launches its preview first.

import { call } from "../api.js";
import { confirmed, tell } from "../dialog.js";
import { el } from "../dom.js";
import { sends, Wrong } from "../forms.js";
import { AUDIENCES } from "./audience.js";
import { at, launchPage } from "./words.js";

const words = (text) => text.split(/[,\n]/).map((word) => word.trim()).filter(Boolean);

// A form that publishes version `number`, of this environment; `done()` is called after it worked.
export function publishing({ name, number, environment }, done) {
  const id = `publish-${number}`;
  const chosen = AUDIENCES.find((audience) => environment[audience.name]?.length)?.name ?? "everyone";
  const radio = (value, label) => {
    const input = el("input", { type: "radio", name: id, value, id: `${id}-${value}`, checked: value === chosen });
    return el("label.check", { for: `${id}-${value}` }, input, ` ${label}`);
  };
  const field = ({ name: key, title }) => {
    const input = el("input.form-control", { id: `${id}-${key}-names`, type: "text", value: (environment[key] ?? []).join(", "), autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-problem` });
    return el("div", { dataset: { of: key } }, el("label.form-label", { for: input.id }, `${title}, separated by commas`), input);
  };
  const problem = el("p.form-problem", { id: `${id}-problem`, role: "alert" });
  const form = el(
    "form.card-form.publish",
    { "aria-label": `Publish version ${number}` },
    el(
      "fieldset.portal-part",
      el("legend", "Visible to"),
      el("div.choices", radio("everyone", "Everyone"), AUDIENCES.map(({ name: key, title }) => radio(key, `Members of ${title.toLowerCase()}`))),
    ),
    AUDIENCES.map(field),
    problem,
    el("button.btn.btn-jupyter", "Publish"),
  );
  const which = () => AUDIENCES.find((audience) => audience.name === form.elements[id].value);
  const fit = () => {
    for (const block of form.querySelectorAll("[data-of]")) block.hidden = block.dataset.of !== which()?.name;
  };
  form.addEventListener("change", fit);
  sends(form, problem, async () => {
    const to = which();
    const input = to && form.querySelector(`#${id}-${to.name}-names`);
    const names = input ? words(input.value) : [];
    if (input && !names.length) throw new Wrong(`Enter at least one ${to.noun}.`, input);
    const body = Object.fromEntries(AUDIENCES.map((audience) => [audience.name, audience === to ? names : []]));
    await call(at(name, "versions", number, "publish"), { method: "POST", body });
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
  return confirmed({ title, text, action, field, danger }, (given) => call(at(name, ...path), { method: "POST", body: body(given) }), said);
}
