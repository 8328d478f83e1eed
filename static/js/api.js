// Calls of the service's API, with the cookie of the login and the XSRF token that belongs to it.

export const facts = JSON.parse(document.getElementById("portal-facts").textContent);

// Whether this person holds the portal's scope, e.g. may("jobs:manage").
export const may = (scope) => facts.scopes.includes(`custom:portal:${scope}`);

// The address of something in the API; values that are empty are left out.
export function apiUrl(path, query = {}) {
  const url = new URL(`${facts.prefix}api/v1/${path}`, window.location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

// What the API refused with, in its own words.
export class ApiError extends Error {
  constructor(message, status = 0, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// The answer of the API as an object; null where it has no content. Throws ApiError with a sentence.
/** @type {typeof import("../types/call").call} */
export async function call(path, { method = "GET", query, body, signal } = {}) {
  let response;
  try {
    response = await fetch(apiUrl(path, query), {
      method,
      signal,
      credentials: "same-origin",
      headers: {
        Accept: "application/json",
        "X-XSRFToken": facts.xsrf,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The portal does not answer. It is tried again.");
  }
  told(response);
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  const { code = "", message = "" } = answer?.error ?? {};
  if (code === "not_logged_in") {
    throw new ApiError("Your login has ended. Reload this page to log in again.", 403, code);
  }
  throw new ApiError(
    message || "The portal's service does not answer. It is tried again.",
    response.status,
    code,
  );
}

// Where the login has ended, or the Hub was started anew, the way back is the page itself: it leads
// through the Hub's login, which most often asks nothing. Whether it is on its way; not twice within
// a minute.
export function loginEnded(error) {
  if (error.code !== "not_logged_in") return false;
  const last = Number(sessionStorage.getItem("portal-login-at") ?? 0);
  if (Math.abs(Date.now() - last) < 60000) return false; // a clock that was set back keeps nobody out
  sessionStorage.setItem("portal-login-at", String(Date.now()));
  window.location.reload();
  return true;
}

// Seconds by the service's clock, so that an age is right where this machine's clock is not, or is set
// while the page is open: they are counted by a clock that nobody sets, from what the service said.
// The page was made before its first byte came, and this script runs later.
const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
const came = navigation?.responseStart ?? performance.now();
const drift = () => Date.now() - performance.now();
let base = { now: facts.now, at: came, drift: drift() };
export const now = () => base.now + (performance.now() - base.at) / 1000;

// That clock may stand still while a laptop sleeps, which looks like one that is set, and the service's
// may be set: then its time is taken from an answer, which says it in whole seconds.
const FAR = 600; // seconds; answers that are only late are nearer
function told(response) {
  const said = Date.parse(response.headers.get("date")) / 1000;
  const jumped = Math.abs(drift() - base.drift) > 5000;
  if (Number.isFinite(said) && (jumped || Math.abs(said - now()) > FAR)) {
    base = { now: said, at: performance.now(), drift: drift() };
  }
}
