// What the pages share: calls of the Hub's REST API with cookie and XSRF token, no jQuery.
const hub = window.jhdata;

function serverUrl(user, server) {
  const base = `${hub.base_url}api/users/${encodeURIComponent(user)}`;
  const path = server ? `/servers/${encodeURIComponent(server)}` : "/server";
  return `${base}${path}?_xsrf=${encodeURIComponent(hub.xsrf_token)}`;
}

// Resolves to the response when the Hub accepted; rejects with a sentence otherwise.
async function callHub(method, user, server, body) {
  let response;
  try {
    response = await fetch(serverUrl(user, server), {
      method,
      credentials: "same-origin",
      headers: { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Error("The portal does not answer. Check your connection and try again.");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new Error(answer.message || `The portal refused (status ${response.status}).`);
}

// Says what happened in the page's own place for it, for screen readers too.
function say(text, bad = false) {
  const place = document.getElementById("portal-status");
  if (!place) return;
  place.textContent = text;
  place.className = text ? `alert ${bad ? "alert-danger" : "alert-info"}` : "";
}

// The token in the address is the Hub's; opened again, such an address would count as a spawn link.
function forgetToken() {
  const address = new URL(window.location.href);
  if (!address.searchParams.has("_xsrf")) return;
  address.searchParams.delete("_xsrf");
  window.history.replaceState(null, "", address);
}
