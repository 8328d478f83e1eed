// The star of an environment: pressed, it stands first in the catalog and on the launch page.

import { call } from "./api.js";
import { toast } from "./dialog.js";
import { announce } from "./dom.js";

// Makes the stars in `place` work; `changed(name, on)` is called when one has another state.
export function stars(place, changed = (_environment, _pressed) => {}) {
  place.addEventListener("click", async (event) => {
    const star = event.target.closest(".star");
    if (!star || star.dataset.busy) return;
    const { environment, title } = star.dataset;
    const on = star.getAttribute("aria-pressed") !== "true";
    const show = (pressed) => {
      star.setAttribute("aria-pressed", String(pressed));
      changed(environment, pressed);
    };
    star.dataset.busy = "yes";
    show(on);
    try {
      await call(`environments/${environment}/favourite`, { method: on ? "PUT" : "DELETE" });
      announce(on ? `${title} is a favourite.` : `${title} is no favourite any more.`);
    } catch (error) {
      show(!on);
      toast(error.message, true);
    } finally {
      delete star.dataset.busy;
    }
  });
}
