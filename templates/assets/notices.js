// Notices on a page of the Hub: that a session which waited has started. Without the service, which has
// the button's script, the page does without.
const noticePlace = document.getElementById("notices");
const HOW_NOTICED = "This browser tells you when a session has started, as long as a page of the portal is open in any tab.";
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
      for (const server of servers.filter((one) => one.ready && startingServers.has(one.name))) {
        const name = server.name ? `Session ${server.name}` : "Your session";
        notices.tellStarted(server.name, `${name} is ready.`, server.url);
      }
      if (answer.ok) startingServers = new Set(servers.filter((one) => !one.ready).map((one) => one.name));
    } catch {
      // The Hub is away for a moment: ask again.
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
    more.textContent = "Mail, and notices before a session ends";
    document.getElementById("notices-more").append(more);
    // The progress page knows by itself (pending.js).
    if (!document.getElementById("portal-pending")) lookAtServers();
  } catch {
    // The service is away.
  }
}
