// The settings of a model: how many replicas it has, who may use it, and its limits.

import { call } from "../api.js";
import { answered } from "../dialog.js";
import { el } from "../dom.js";
import { openForm } from "../forms.js";
import { Row, input } from "../run/row.js";
import { Audience, filled, number, refusing } from "./fields.js";
import { pathOf } from "./words.js";

// Rows of the numbers of replicas, as the API has them.
export function scaleRows({ least, most, idle }) {
  return {
    least: filled(new Row("Replicas at least", input("", 0), "0: it sleeps without requests, and the next one wakes it."), least),
    most: filled(new Row("Replicas at most", input("", 1)), most),
    idle: filled(new Row("Sleeps after", input("", 1), "Minutes without a request."), Math.round(idle / 60)),
  };
}
export const scaleOf = ({ least, most, idle }) => ({ least: number(least), most: number(most), idle: 60 * (number(idle) ?? 0) });

export async function change(model, onDone) {
  const choices = await answered(call("model-choices"));
  if (!choices) return;
  const { limits } = model;
  const scale = scaleRows(model);
  const target = filled(new Row("Requests for one replica at a time", input("", 1), "With more, another replica is launched."), model.target);
  const audience = new Audience(model, choices);
  const limit = {
    "limits.body": filled(new Row("Body of a request, MB", input("", 0)), Math.round(limits.body / 1048576)),
    "limits.seconds": filled(new Row("Time of a request, seconds", input("", 1)), limits.seconds),
    "limits.wake": filled(new Row("Waiting for a replica, seconds", input("", 0)), limits.wake),
    "limits.in_flight": filled(new Row("Requests at a replica", input("", 1)), limits.in_flight),
    "limits.waiting": filled(new Row("Requests that may wait", input("", 0)), limits.waiting),
  };
  const refuse = refusing({ ...scale, target, ...audience.rows, ...limit });
  const send = async () => {
    const { "limits.body": body, ...others } = limit;
    const numbers = Object.fromEntries(Object.entries(others).map(([name, row]) => [name.replace("limits.", ""), number(row)]));
    const wanted = { ...scaleOf(scale), target: number(target), ...audience.value, limits: { ...numbers, body: 1048576 * (number(body) ?? 0) } };
    try {
      await call(pathOf(model.name), { method: "PUT", body: wanted });
      dialog.close();
      onDone();
    } catch (error) {
      refuse(error);
    }
  };
  const rows = (some) => Object.values(some).map(({ node }) => node);
  const dialog = openForm({
    id: "settings",
    title: `Settings of ${model.name}`,
    content: [rows(scale), target.node, audience.node, el("details", el("summary", "Limits"), rows(limit))].flat(),
    action: "Save settings",
    first: scale.least.control,
    send,
  });
  dialog.classList.add("model-fields");
}
