// The star of an environment: favourites come first in the catalog and on the launch page.

import { call } from "./api.js";
import { toast } from "./dialog.js";
import { announce } from "./dom.js";

// Handles clicks on the stars in `place`; calls `changed(name, on)` when the state of a star changes.
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
      announce(on ? `${title} is added to your favourites.` : `${title} is removed from your favourites.`);
    } catch (error) {
      show(!on);
      toast(error.message, true);
    } finally {
      delete star.dataset.busy;
    }
  });
}
