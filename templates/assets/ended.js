// A session that failed or ended: "Try again" starts it with the same options; a link's fragment is kept.
const start = document.getElementById("start");
if (window.location.hash) start.href += window.location.hash;

const again = document.getElementById("try-again");
again?.addEventListener("click", async () => {
  const { user, server, options, pending } = again.dataset;
  again.disabled = true;
  say("Starting…");
  try {
    await callHub("POST", user, server, JSON.parse(options));
    window.location.assign(pending);
  } catch (error) {
    again.disabled = false;
    say(error.message, true);
  }
});
window._jupyterhub_page_loaded = true;
