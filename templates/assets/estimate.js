// The estimated start, requested from the Hub after a pause in the user's changes. The
// old answer stays, greyed out, until the new one arrives; the same answer is not written (and not read
// aloud) again.
const PAUSE = 400; // milliseconds without a change
const AGAIN = 30000; // milliseconds after which the estimate for the same choice is refreshed
const estimate = { asked: "", timer: 0, running: null, shown: "" };

function chosen() {
  const names = ["environment", "kind", ...data.fields.map((entry) => entry.name)];
  const fields = new FormData(form);
  return Object.fromEntries(names.filter((name) => fields.get(name)).map((name) => [name, fields.get(name)]));
}

function askWhen(again = false) {
  const place = document.getElementById("launch-estimate");
  if (!place || !data.owner || document.getElementById("start").disabled) return;
  const body = JSON.stringify(chosen());
  if (body === estimate.asked && !again) return;
  estimate.asked = body;
  estimate.running?.abort();
  place.classList.add("portal-old");
  clearTimeout(estimate.timer);
  estimate.timer = setTimeout(() => fetchWhen(body), again ? 0 : PAUSE);
}

async function fetchWhen(body) {
  const stop = (estimate.running = new AbortController());
  let answer = null;
  try {
    const response = await fetch(`${hub.base_url}api/portal/estimates/${encodeURIComponent(data.owner)}`, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", "X-XSRFToken": hub.xsrf_token },
      body,
      signal: stop.signal,
    });
    if (response.ok) answer = await response.json();
  } catch {
    if (stop.signal.aborted) return; // the choice has changed meanwhile
  }
  if (body !== estimate.asked) return;
  showWhen(answer);
  estimate.timer = setTimeout(() => {
    if (document.hidden) document.addEventListener("visibilitychange", () => askWhen(true), { once: true });
    else askWhen(true);
  }, AGAIN);
}

// ``answer`` null: no answer, so no estimate is shown instead of an old one.
function showWhen(answer) {
  const place = document.getElementById("launch-estimate");
  place.classList.remove("portal-old");
  document.getElementById("launch-estimate-words").hidden = !answer;
  const nearby = answer?.nearby ?? [];
  drawWaits(answer?.waits ?? [], answer?.waits_words ?? "");
  const shown = JSON.stringify([answer?.words, answer?.source, nearby.map((choice) => [choice.label, choice.words])]);
  if (shown === estimate.shown) return;
  estimate.shown = shown;
  place.dataset.outlook = answer?.outlook ?? "";
  document.getElementById("launch-starts").textContent = answer?.words ?? "";
  document.getElementById("launch-starts-source").textContent = answer?.source ?? "";
  const buttons = document.getElementById("launch-nearby");
  buttons.hidden = !nearby.length;
  buttons.replaceChildren(
    ...nearby.map((choice) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "btn btn-sm btn-outline-secondary";
      button.textContent = `${choice.label}: ${choice.words}`;
      button.addEventListener("click", () => {
        take(new URLSearchParams(Object.entries(choice.changes)));
        show();
        document.getElementById("start").focus();
      });
      return button;
    }),
  );
  // Slurm's estimate is better than the page's own hint.
  document.getElementById("launch-hint").hidden = Boolean(answer) && answer.outlook !== "unknown";
}

// The wait of a session that is requested now, in an hour, and so on: a bar for each hour, as high as the
// wait; a hatched one where no start is known.
function drawWaits(waits, words) {
  const plot = document.getElementById("launch-waits");
  const longest = Math.max(3600, ...waits);
  plot.hidden = !waits.length;
  plot.title = words;
  plot.setAttribute("aria-label", words);
  const bars = waits.map((wait) => {
    const bar = document.createElement("span");
    bar.className = wait === null ? "portal-wait-unknown" : wait ? "portal-wait" : "portal-wait-none";
    if (wait) bar.style.height = `${Math.max(12, (100 * wait) / longest)}%`;
    return bar;
  });
  document.getElementById("launch-waits-bars").replaceChildren(...bars);
  document.getElementById("launch-waits-longest").textContent = longest > 3600 ? `${Math.round(longest / 3600)} h` : "";
}
