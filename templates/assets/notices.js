// Notifications on a page of the Hub that a waiting session has started. Without the service, which has
// the button's script, there are none.
const noticePlace = document.getElementById("notices");
const HOW_NOTICED = "While a page of the portal is open in any tab, this browser notifies you when a session has started.";
const LOOK_EVERY = 10000;
let notices = null;
let startingServers = new Set();

async function lookAtServers() {
  if (notices.wanted()) {
    try {
      const address = `${hub.base_url}api/users/${encodeURIComponent(noticePlace.dataset.user)}`;
      const answer = await fetch(address, {
        credentials: "same-origin",
        headers: { "X-XSRFToken": hub.xsrf_token },
      });
      const servers = answer.ok ? Object.values((await answer.json()).servers) : [];
      for (const server of servers.filter((candidate) => candidate.ready && startingServers.has(candidate.name))) {
        const name = server.name ? `Session ${server.name}` : "Your session";
        notices.tellStarted(server.name, `${name} is ready.`, server.url);
      }
      if (answer.ok) startingServers = new Set(servers.filter((server) => !server.ready).map((server) => server.name));
    } catch {
      // The Hub does not answer: try again.
    }
  }
  setTimeout(lookAtServers, LOOK_EVERY);
}

if (noticePlace) {
  try {
    notices = await import(`${noticePlace.dataset.service}static/-/js/notify.js`);
    notices.mount(noticePlace, HOW_NOTICED, () => {});
    const more = document.createElement("a");
    more.href = `${noticePlace.dataset.service}sessions#notices`;
    more.textContent = "Mail notifications, and warnings before a session ends";
    document.getElementById("notices-more").append(more);
    // The progress page gets events itself (pending.js).
    if (!document.getElementById("portal-pending")) lookAtServers();
  } catch {
    // The service is down.
  }
}
