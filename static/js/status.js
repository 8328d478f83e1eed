// The state of anything that has one, as a pill with icon, colour and word, by the table of templates/status.html.

import { facts } from "./api.js";
import { el, icon } from "./dom.js";

// A pill that says `words`, by default the state itself.
export function pill(state, words = state) {
  const [look, sign] = facts.states[state] ?? facts.states.unknown;
  return el(`span.state.state-${look}`, icon(sign), " ", words);
}
