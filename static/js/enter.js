// Another user's session in a new tab, after a click here: the Hub does not ask again.

import { call } from "./api.js";
import { tell } from "./dialog.js";

// `path` is the API's address of the entrance.
export async function enter(path) {
  const tab = window.open("", "_blank"); // at once: later, browsers take it for a pop-up
  if (tab) tab.opener = null; // the session's page must not reach this one
  const open = await tell(async () => {
    const { url } = await call(path, { method: "POST", body: {} });
    (tab ?? window).location.assign(url);
  });
  if (!open) tab?.close();
}
