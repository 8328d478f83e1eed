// The API of this session's TensorBoards, and elements without HTML strings.

export const prefix = document.body.dataset.prefix;

// The current cookie, as in JupyterLab: another page may have renewed it.
function xsrf() {
  return document.cookie.match("\\b_xsrf=([^;]*)\\b")?.[1] ?? document.body.dataset.xsrf;
}

// Returns the JSON response; throws an Error with its message.
export async function call(path, { method = "GET", body } = {}) {
  // Also for GET: JupyterHub accepts its cookie from a script only together with this token.
  const headers = { "X-XSRFToken": xsrf() };
  if (body) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`${prefix}api/${path}`, { method, headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Error("The session does not answer. Retrying…");
  }
  if (answer.status === 204) return null;
  let content = {};
  try {
    content = await answer.json();
  } catch {
    // A response of the proxy or the Hub: only its status is known.
  }
  if (!answer.ok) {
    const error = new Error(content.message || `The session answered with ${answer.status}.`);
    error.status = answer.status;
    throw error;
  }
  return content;
}

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function size(bytes) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 && unit ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function words(board) {
  if (board.state === "starting") return "Starting…";
  if (board.state === "ended") return board.words || "TensorBoard is no longer running.";
  const files = `${board.files} event file${board.files === 1 ? "" : "s"}`;
  if (board.state === "reading") {
    return board.total ? `Reading ${files}: ${size(board.read)} of ${size(board.total)}` : `Looking for event files: ${board.files} so far`;
  }
  return board.files ? files : "No event files yet. They appear when training writes them.";
}
