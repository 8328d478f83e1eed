// The next meetings of a course, each with the state of its reservation.

import { call } from "../api.js";
import { byId, el, empty, fill, setText, trouble } from "../dom.js";
import { pill } from "../status.js";
import { count } from "../words.js";
import { at, meetingWords } from "./words.js";

const MOST = 6;
const STATES = {
  planned: ["planned", "reserved later"],
  asked: ["asked", "being reserved"],
  made: ["made", "reserved"],
  refused: ["failed", "not reserved"],
};

export async function meetings(course) {
  const place = byId("meetings-list");
  try {
    const [{ items, timezone }, reserved] = await Promise.all([
      call(at(course, "meetings")),
      call(at(course, "reservations")).catch(() => ({ items: [] })),
    ]);
    const by = new Map((reserved.items ?? []).map((reservation) => [Math.round(reservation.begins), reservation]));
    setText(byId("meetings-count"), items.length ? `${count(items.length, "upcoming meeting")}; times are in ${timezone}` : "");
    const bad = (reserved.items ?? []).filter((reservation) => reservation.state === "refused");
    fill(
      place,
      bad.length ? trouble(`${count(bad.length, "meeting has", "meetings have")} no reservation: Slurm refused the request. The reason is shown below.`) : null,
      items.length
        ? el("ul.plain.meeting-list", items.slice(0, MOST).map((meeting) => line(meeting, timezone, by.get(Math.round(meeting.begins)))))
        : empty("No upcoming meetings."),
      items.length > MOST ? el("p.portal-quiet", `And ${items.length - MOST} more; the calendar below shows all.`) : null,
    );
  } catch (error) {
    setText(byId("meetings-count"), error.message);
  }
}

function line(meeting, zone, reservation) {
  const [state, words] = STATES[reservation?.state] ?? [];
  return el(
    "li",
    el("span.meeting-time", meetingWords(meeting, zone)),
    words ? pill(state, words) : null,
    reservation?.nodes?.length ? el("span.portal-quiet", reservation.nodes.join(", ")) : null,
    reservation?.message ? el("p.why", reservation.message) : null,
  );
}
