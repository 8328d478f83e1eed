// Opens TensorBoard over all logs of a run, in a small job of its own.

import { call } from "../api.js";
import { tell } from "../dialog.js";
import { announce } from "../dom.js";
import { spaceOf } from "../space.js";
import { actionButton, actions } from "./actions.js";

actions.push((run) => (run.mine && !spaceOf(run) ? actionButton("Open TensorBoard", () => open(run)) : null));

async function open(run) {
  await tell(async () => {
    announce("TensorBoard is starting.");
    const { url } = await call(`runs/${encodeURIComponent(run.id)}/tensorboard`, { method: "POST", body: {} });
    window.location.assign(url);
  });
}
