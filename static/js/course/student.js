// A course as its students see it: a button that opens the session, or starts it if there is none; and
// the room, while it is open.

import { call } from "../api.js";
import { toast } from "../dialog.js";
import { byId, setText } from "../dom.js";
import { openOnClick } from "./open.js";
import { showRoom } from "./room.js";
import { at } from "./words.js";

const { course, preview, runs } = JSON.parse(byId("course-facts").textContent);
const button = byId("open");

if (button && !runs) openOnClick(button, course, byId("open-words"), { preview });
const join = byId("join");
if (join) {
  join.addEventListener("click", async () => {
    join.disabled = true;
    try {
      setText(byId("join-words"), (await call(at(course, "join"), { method: "POST" })).message);
      join.remove();
    } catch (error) {
      join.disabled = false;
      toast(error.message, true);
    }
  });
}
if (byId("room-part")) showRoom(course, false);
