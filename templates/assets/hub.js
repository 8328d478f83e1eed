// Shared by the pages: calls of the Hub's REST API with cookie and XSRF token, without jQuery.
const hub = window.jhdata;

function serverUrl(user, server) {
  const base = `${hub.base_url}api/users/${encodeURIComponent(user)}`;
  const path = server ? `/servers/${encodeURIComponent(server)}` : "/server";
  return `${base}${path}?_xsrf=${encodeURIComponent(hub.xsrf_token)}`;
}

// Resolves to the response if the Hub accepts the request; rejects with a message otherwise.
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
  throw new Error(answer.message || `The portal refused the request (status ${response.status}).`);
}

// Shows a message in the page's status area, which screen readers announce.
function say(text, bad = false) {
  const place = document.getElementById("portal-status");
  if (!place) return;
  place.textContent = text;
  place.className = text ? `alert ${bad ? "alert-danger" : "alert-info"}` : "";
}

// Removes the Hub's token from the address, which would count as a spawn link if opened again.
function forgetToken() {
  const address = new URL(window.location.href);
  if (!address.searchParams.has("_xsrf")) return;
  address.searchParams.delete("_xsrf");
  window.history.replaceState(null, "", address);
}
