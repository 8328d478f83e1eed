// The list of sessions: stop, remove and new names, without leaving a dead button behind.
const home = document.getElementById("portal-home");
const user = home.dataset.user;

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

for (const row of home.querySelectorAll("[data-server]")) {
  const server = row.dataset.server;
  const stop = row.querySelector(".stop-server");
  stop?.addEventListener("click", () =>
    act(stop, "Stopping the session…", () => callHub("DELETE", user, server)),
  );
  const remove = row.querySelector(".delete-server");
  remove?.addEventListener("click", () =>
    act(remove, "Removing the session's name…", () =>
      callHub("DELETE", user, server, { remove: true }),
    ),
  );
}

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
