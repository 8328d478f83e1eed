// Calls of the service's API, with the login cookie and its XSRF token.

export const facts = JSON.parse(document.getElementById("portal-facts").textContent);

// Whether this user holds the portal's scope, e.g. may("jobs:manage").
export const may = (scope) => facts.scopes.includes(`custom:portal:${scope}`);

// The URL of an API path; empty values are left out.
export function apiUrl(path, query = {}) {
  const url = new URL(`${facts.prefix}api/v1/${path}`, window.location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

// An error of the API, with its message, and the field that it is about, if it is one.
export class ApiError extends Error {
  constructor(message, status = 0, code = "", field = "") {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field;
  }
}

// Returns the API's response as an object; null if it has no content. Throws ApiError.
/** @type {typeof import("../types/call").call} */
export async function call(path, { method = "GET", query, body, signal } = {}) {
  const file = body instanceof Blob; // it is sent as it is
  // Only pages that show data ask again by themselves.
  const then = method === "GET" ? "Retrying…" : "It may have been done: look before you try again.";
  let response;
  try {
    response = await fetch(apiUrl(path, query), {
      method,
      signal,
      credentials: "same-origin",
      headers: {
        Accept: "application/json",
        "X-XSRFToken": facts.xsrf,
        ...(body === undefined ? {} : { "Content-Type": file ? "application/octet-stream" : "application/json" }),
      },
      body: body === undefined || file ? /** @type {any} */ (body) : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(`The portal does not answer. ${then}`);
  }
  told(response);
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  const { code = "", message = "", field = "" } = answer?.error ?? {};
  if (code === "not_logged_in") {
    throw new ApiError("Your login has expired. Reload this page to sign in again.", 403, code);
  }
  throw new ApiError(
    message || `The portal's service does not answer. ${then}`,
    response.status,
    code,
    field,
  );
}

// Reloads the page after the login has expired or the Hub has restarted: that leads through the Hub's
// login, which usually asks nothing. Returns whether it reloads; at most once a minute.
export function loginEnded(error) {
  if (error.code !== "not_logged_in") return false;
  const last = Number(sessionStorage.getItem("portal-login-at") ?? 0);
  if (Math.abs(Date.now() - last) < 60000) return false; // a clock that was set back must not block the reload
  sessionStorage.setItem("portal-login-at", String(Date.now()));
  window.location.reload();
  return true;
}

// Seconds by the service's clock, so that ages are right even if this machine's clock is wrong or is set
// while the page is open: a monotonic clock counts on from the service's time. The service rendered the
// page before its first byte arrived; this script runs later.
const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
const came = navigation?.responseStart ?? performance.now();
const drift = () => Date.now() - performance.now();
let base = { now: facts.now, at: came, drift: drift() };
export const now = () => base.now + (performance.now() - base.at) / 1000;

// The monotonic clock may stop while a laptop sleeps, and the service's clock may be set. In both cases
// the time is taken from a response's Date header, which has whole seconds.
const FAR = 600; // seconds; merely late responses differ less
function told(response) {
  const said = Date.parse(response.headers.get("date")) / 1000;
  const jumped = Math.abs(drift() - base.drift) > 5000;
  if (Number.isFinite(said) && (jumped || Math.abs(said - now()) > FAR)) {
    base = { now: said, at: performance.now(), drift: drift() };
  }
}

// A new id of what a request starts, so that one that is sent twice starts it once. (`crypto.randomUUID` is only
// there with HTTPS.)
export const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
