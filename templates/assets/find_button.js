// Opens the dialog "Go to…" with its button, or Ctrl-K.
const findButton = document.getElementById("portal-find");

async function openFind() {
  try {
    (await import(findButton.dataset.module)).openDestinations(findButton);
  } catch {
    findButton.querySelector("span").textContent = "Not available now";
  }
}
findButton.addEventListener("click", openFind);
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  event.preventDefault();
  openFind();
});
