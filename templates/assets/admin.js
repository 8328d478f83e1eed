// Leads to the service's page of users, or shows JupyterHub's own.
const adminPlace = document.getElementById("admin-place");

async function serviceRuns() {
  try {
    return (await fetch(`${adminPlace.dataset.service}static/-/js/users.js`, { method: "HEAD" })).ok;
  } catch {
    return false;
  }
}

if (!new URLSearchParams(window.location.search).has("stock") && (await serviceRuns())) {
  window.location.replace(`${adminPlace.dataset.service}users`);
} else {
  const stock = /** @type {HTMLTemplateElement} */ (document.getElementById("stock-admin"));
  adminPlace.append(document.importNode(stock.content, true));
}
