// The list of sessions: buttons to stop and remove them, and the form for a new one.
const home = document.getElementById("portal-home");
const user = home.dataset.user;

const PATIENCE = 2000; // milliseconds for the service

// Redirects to the service's Home, which shows more. Its scripts need no sign-in.
async function leaveForService(service) {
  const script = `${service}static/-/js/home.js`;
  try {
    const answer = await fetch(script, { method: "HEAD", signal: AbortSignal.timeout(PATIENCE) });
    if (answer.ok) {
      window.location.replace(`${service}home`);
      return;
    }
  } catch {
    // The service is down or hangs: stay on this page.
  }
  home.hidden = false;
}
if (home.dataset.service) leaveForService(home.dataset.service);

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
    act(button, "Removing the session…", () =>
      callHub("DELETE", user, server, { remove: true }),
    );
  }
});

// Updates the list while a session starts or stops; the rest of the page is not changed.
async function follow() {
  if (!list.querySelector(".state-waits")) return;
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
    // The Hub does not answer: try again.
  }
  setTimeout(follow, 4000);
}
setTimeout(follow, 4000);

const fresh = document.getElementById("new-session");
fresh?.addEventListener("submit", (event) => {
  event.preventDefault();
  // The Hub's rules for names.
  window.require(["utils"], (utils) => {
    const display = utils.sanitise_display_name(document.getElementById("new-session-name").value);
    if (!display) {
      say("Enter a name for the session.", true);
      return;
    }
    const name = encodeURIComponent(utils.safe_slug(display));
    const shown = encodeURIComponent(display);
    window.location.assign(`${fresh.dataset.spawn}/${name}?display_name=${shown}`);
  });
});
window._jupyterhub_page_loaded = true;
