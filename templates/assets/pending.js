// The progress page: the Hub's events in words, and a cancel button. If the event
// stream breaks, the page checks the state of the session and connects again.
const page = document.getElementById("portal-pending");
const { user, server, progress, spawn } = page.dataset;
const message = document.getElementById("progress-message");
const bar = document.getElementById("progress-bar");
const log = document.getElementById("progress-log");
const job = document.getElementById("progress-job");
const connection = document.getElementById("progress-connection");
const cancel = document.getElementById("stop-server-btn");

let source = null;
let retry = 1;
let last = "";
let cancelling = false;

function plain(event) {
  // html_message comes from the Hub itself or a hook; only its text is used.
  if (event.message !== undefined) return event.message;
  if (event.html_message === undefined) return "";
  return new DOMParser().parseFromString(event.html_message, "text/html").body.textContent;
}

function show(event) {
  if (event.progress !== undefined) {
    bar.setAttribute("aria-valuenow", event.progress);
    bar.firstElementChild.style.width = `${event.progress}%`;
  }
  if (event.job_id) {
    job.textContent = `Slurm job ${event.job_id}`;
    job.hidden = false;
  }
  const text = plain(event);
  if (!text || text === last) return;
  last = text;
  message.textContent = text;
  const line = document.createElement("li");
  const time = document.createElement("time");
  time.className = "portal-quiet";
  time.textContent = new Date().toLocaleTimeString();
  const words = document.createElement("span");
  words.textContent = text;
  line.append(time, words);
  log.append(line);
}

// The page's address returns this page while the session starts, and then the session or
// the reason why it failed.
async function standing() {
  const answer = await fetch(window.location.href, { redirect: "manual", credentials: "same-origin" });
  if (answer.type === "opaqueredirect") return "elsewhere";
  const text = await answer.text();
  return text.includes('id="portal-pending"') ? "pending" : "elsewhere";
}

function connect() {
  source = new EventSource(progress);
  source.onopen = () => {
    retry = 1;
    connection.textContent = "";
  };
  source.onmessage = (received) => {
    const event = JSON.parse(received.data);
    show(event);
    if (event.ready || event.failed) {
      source.close();
      if (!cancelling) leave(event);
    }
  };
  source.onerror = () => {
    source.close();
    if (!cancelling) later();
  };
}

// The same address now leads to the session, or shows why it did not start. A user who wants notifications and
// looks at another tab is notified first, because a notification ends with its page.
function leave(event) {
  if (!document.hidden || !notices?.wanted()) {
    window.location.reload();
    return;
  }
  if (event.ready) notices.tellStarted(server, plain(event), window.location.href);
  else notices.tell(`failed ${Date.now()}`, "Your session did not start", plain(event), window.location.href);
  document.addEventListener("visibilitychange", () => document.hidden || window.location.reload());
}

function later() {
  connection.textContent = "The connection to the portal was lost. Trying again…";
  setTimeout(async () => {
    retry = Math.min(retry * 2, 15);
    try {
      if ((await standing()) === "pending") connect();
      else window.location.reload();
    } catch {
      later();
    }
  }, retry * 1000);
}

cancel.addEventListener("click", async () => {
  cancelling = true;
  cancel.disabled = true;
  say("Cancelling…");
  try {
    await callHub("DELETE", user, server);
    window.location.assign(spawn);
  } catch (error) {
    cancelling = false;
    cancel.disabled = false;
    say(`The session was not cancelled. ${error.message}`, true);
  }
});

connect();
window.addEventListener("pagehide", () => source?.close());
forgetToken();
window._jupyterhub_page_loaded = true;
