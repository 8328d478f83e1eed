// The runs of other users that this one may see. The part is hidden while there are none.

import { call } from "../api.js";
import { byId, el, setText, showTrouble } from "../dom.js";
import { Pager } from "../pager.js";
import { Poller } from "../poller.js";
import { environmentCell } from "./listed.js";
import { points, runPage, time } from "./view.js";
import { pill } from "../status.js";
import { Table } from "../table.js";
import { count } from "../words.js";

const EVERY = 30000;

export function showShared() {
  const pager = new Pager(byId("shared-pager"), 25, () => poller.now());
  const table = new Table(byId("shared"), {
    label: "shared-title",
    key: (run) => `${run.user}/${run.id}`,
    columns: [
      { head: "Name", cell: (run) => el("a", { href: runPage(run) }, run.name) },
      { head: "User", cell: (run) => run.user },
      { head: "State", cell: (run) => pill(run.state) },
      { head: "Points", cell: points, wide: true },
      { head: "Environment", cell: environmentCell },
      { head: "Started", cell: (run) => time(run.created_at) },
    ],
  });
  const poller = new Poller({
    every: EVERY,
    onTrouble: showTrouble,
    ask: async () => {
      const page = await pager.read((place) => call("shared-runs", { query: place }));
      byId("shared-part").hidden = !page.total;
      setText(byId("shared-count"), page.total ? count(page.total, "run") : "");
      table.show(page.items, "");
    },
  });
  poller.now();
}
