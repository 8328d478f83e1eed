// The next meetings of a course with what is reserved for each, and why where it is not.

import { call } from "../api.js";
import { byId, el, fill, setText } from "../dom.js";
import { count } from "../words.js";
import { at, meetingWords } from "./words.js";

const MOST = 12;
const STATES = {
  planned: ["other", "reserved later"],
  asked: ["waits", "being reserved"],
  made: ["runs", "reserved"],
  refused: ["bad", "not reserved"],
};

export async function meetings(course) {
  const place = byId("meetings-list");
  try {
    const [{ items, timezone }, reserved] = await Promise.all([
      call(at(course, "meetings")),
      call(at(course, "reservations")).catch(() => ({ items: [] })),
    ]);
    const by = new Map((reserved.items ?? []).map((one) => [Math.round(one.begins), one]));
    setText(byId("meetings-count"), items.length ? `${count(items.length, "meeting is", "meetings are")} ahead; times of ${timezone}` : "");
    const bad = (reserved.items ?? []).filter((one) => one.state === "refused");
    fill(
      place,
      bad.length ? el("div.alert.alert-warning.trouble", {}, `${count(bad.length, "meeting has", "meetings have")} no reservation: Slurm refused it. Below it says why.`) : null,
      items.length
        ? el("ul.plain.meeting-list", {}, items.slice(0, MOST).map((one) => line(one, timezone, by.get(Math.round(one.begins)))))
        : el("p.portal-quiet.empty", {}, "No meeting is ahead."),
      items.length > MOST ? el("p.portal-quiet", {}, `And ${items.length - MOST} more; the months below show all.`) : null,
    );
  } catch (error) {
    setText(byId("meetings-count"), error.message);
  }
}

function line(one, zone, reservation) {
  const [look, words] = STATES[reservation?.state] ?? [];
  return el(
    "li",
    {},
    el("span.meeting-time", {}, meetingWords(one, zone)),
    words ? el(`span.state.state-${look}`, {}, words) : null,
    reservation?.nodes?.length ? el("span.portal-quiet", {}, reservation.nodes.join(", ")) : null,
    reservation?.message ? el("p.why", {}, reservation.message) : null,
  );
}
