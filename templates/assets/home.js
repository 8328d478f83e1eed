// The list of sessions: stop, remove and new names, without leaving a dead button behind.
const home = document.getElementById("portal-home");
const user = home.dataset.user;

// The service's page of sessions shows more. Its scripts are for everyone, so this asks no login.
async function leaveForService() {
  const service = home.dataset.service;
  if (!service) return;
  try {
    const answer = await fetch(`${service}static/-/js/sessions.js`, { method: "HEAD" });
    if (answer.ok) window.location.replace(`${service}sessions${window.location.search}`);
  } catch {
    // The service is away: this page serves.
  }
}
leaveForService();

async function act(button, doing, call) {
  button.disabled = true;
  say(doing);
  try {
    await call();
    window.location.reload();
  } catch (error) {
    button.disabled = false;
    say(error.message, true);
  }
}

const list = home.querySelector(".portal-sessions");
list.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  const server = button?.closest("[data-server]").dataset.server;
  if (button?.classList.contains("stop-server")) {
    act(button, "Stopping the session…", () => callHub("DELETE", user, server));
  } else if (button?.classList.contains("delete-server")) {
    act(button, "Removing the session's name…", () =>
      callHub("DELETE", user, server, { remove: true }),
    );
  }
});

// While something starts or stops, the list follows; the rest of the page stays as it is.
async function follow() {
  if (!list.querySelector(".portal-dot-wait")) return;
  try {
    const answer = await fetch(window.location.href, { credentials: "same-origin" });
    const text = await answer.text();
    const whole = new DOMParser().parseFromString(text, "text/html");
    const now = whole.querySelector(".portal-sessions");
    const age = whole.getElementById("portal-stale");
    if (age) document.getElementById("portal-stale").replaceChildren(...age.children);
    if (now && now.innerHTML !== list.innerHTML && !list.querySelector("button:disabled")) {
      list.replaceChildren(...now.children);
    }
  } catch {
    // The Hub is away for a moment: ask again.
  }
  setTimeout(follow, 4000);
}
setTimeout(follow, 4000);

const fresh = document.getElementById("new-session");
fresh?.addEventListener("submit", (event) => {
  event.preventDefault();
  // The Hub's own rules for names.
  window.require(["utils"], (utils) => {
    const display = utils.sanitise_display_name(document.getElementById("new-session-name").value);
    if (!display) {
      say("Please give the session a name.", true);
      return;
    }
    const name = encodeURIComponent(utils.safe_slug(display));
    const shown = encodeURIComponent(display);
    window.location.assign(`${fresh.dataset.spawn}/${name}?display_name=${shown}`);
  });
});
window._jupyterhub_page_loaded = true;
