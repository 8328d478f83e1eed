// Details of one session. The page is updated until the session ends.

import { call, facts as site, now } from "./api.js";
import { byId, el, fill, repaint, setText, showTrouble } from "./dom.js";
import { extend } from "./extend.js";
import { idleWords } from "./idle.js";
import { follow } from "./move.js";
import { Poller } from "./poller.js";
import { actions, efficiency, isLiving, place, resources, state, suggestion, timeline, times, titleOf } from "./sessionview.js";
import { spaceOf } from "./space.js";
import { startup } from "./startup.js";
import { showUse } from "./use.js";
import { facts as factList } from "./panel.js";

const EVERY = 10000;
const main = byId("session");
const id = main.dataset.id;
const poller = new Poller({ every: EVERY, ask: load, onTrouble: showTrouble });
let withLog = true;
let useAt = 0; // when the use is shown again

async function load() {
  const session = await call(`sessions/${encodeURIComponent(id)}`, { query: { log: String(withLog) } });
  // Reading another user's log adds an audit entry: it is read again only on request.
  withLog = session.mine;
  show(session);
  follow(byId("move"), session, () => poller.now());
  if (window.location.hash === "#extend" && session.state === "running") {
    history.replaceState(null, "", window.location.pathname + window.location.search); // once
    extend(session, () => poller.now());
  }
  useOf(session);
  if (session.log !== null) log(session.log, session);
  showTrouble(null);
  byId("log-again").hidden = session.mine || !isLiving(session);
  return isLiving(session) ? EVERY : null;
}

function show(session) {
  document.title = document.title.replace(/^[^–]*/, `${titleOf(session)} `);
  main.removeAttribute("aria-busy");
  const bad = session.ending && !["completed", "finished", "stopped", "walltime", "cancelled", "moved", "idle", "unknown"].includes(session.ending.code);
  repaint(main, () => fill(
    main,
    el(
      "div.page-title",
      el("h1", titleOf(session), session.server ? el("span.portal-quiet", ` ${session.server}`) : null),
      actions(session, () => poller.in(1000), { detail: false }),
    ),
    el("p.portal-facts.session-state", state(session), isLiving(session) ? el("span", times(session, now())) : null, session.mine ? null : el("span", `user ${session.user}`)),
    session.ending
      ? el(`div.alert.${bad ? "alert-danger" : "alert-secondary"}.ending`, session.ending.words)
      : null,
    idleWords(session, ` ${titleOf(session)}`, () => poller.now()),
    suggestion(session),
    el(
      "div.session-parts",
      el(
        "section",
        { "aria-label": "Details" },
        el("h2", "Details"),
        factList([
          ["Environment", titleOf(session)],
          ["Resources", resources(session)],
          session.options.kernel ? ["Kernel", session.options.kernel.name] : null,
          session.options.run ? ["Run", el("a", { href: `${site.prefix}runs/${session.options.run.id}` }, session.options.run.name)] : null,
        session.options.tensorboard ? ["Log folders", session.options.tensorboard.join(", ")] : null,
          session.job_id ? ["Slurm job", session.job_id] : null,
          session.nodes.length ? ["Node", place(session)] : null,
          session.account ? ["Runs as", session.account] : null,
          spaceOf(session),
          session.exit_code !== null ? ["Exit code", String(session.exit_code)] : null,
        ]),
      ),
      el("section", { "aria-label": "Resource usage" }, el("h2", "Resource usage"), efficiency(session)),
    ),
    el("section.session-times", { "aria-label": "Timeline" }, el("h2", "Timeline"), timeline(session), startup(session)),
  ));
}

// The use over time: once, and then once a minute while it runs.
function useOf(session) {
  if (session.started_at === null || now() < useAt) return;
  useAt = isLiving(session) ? now() + 60 : Infinity;
  const place = byId("use");
  showUse(place, `sessions/${encodeURIComponent(id)}`).catch((error) => fill(place, error.message));
  byId("use-part").hidden = false;
}

function log(text, session) {
  const pre = byId("log");
  const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
  pre.hidden = !text;
  setText(pre, text);
  setText(byId("log-words"), text ? "" : isLiving(session) ? "The log is still empty." : "The log is empty or was not kept.");
  if (atEnd) pre.scrollTop = pre.scrollHeight;
}

byId("log-again").addEventListener("click", () => {
  withLog = true;
  poller.now();
});
poller.now();
