// A course as its students see it: the room, while it is open.

import { byId } from "../dom.js";
import { showRoom } from "./room.js";

const { course } = JSON.parse(byId("course-facts").textContent);
if (byId("room-part")) showRoom(course, false);
