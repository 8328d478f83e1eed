// Filters cards by words and tags while the user types. Each card has data-search (the text to
// search, in lower case) and data-tags (one per line). `first`: how many cards are shown without a
// search, without those with data-later; a card with a checked field is always shown. `go`: selector of the element in a card that Enter focuses.
// Returns a function that filters again.
function finder({ cards, search, filters, count, all, first = Infinity, noun, go, onFound = () => {} }) {
  const total = cards().length;
  const many = (number) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  let everything = false;
  let found = [];

  function look() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const tags = [...filters].filter((button) => button.getAttribute("aria-pressed") === "true").map((button) => button.dataset.tag);
    const asked = words.length + tags.length > 0;
    found = cards().filter((card) => {
      const has = card.dataset.tags.split("\n");
      return words.every((word) => card.dataset.search.includes(word)) && tags.every((tag) => has.includes(tag));
    });
    const shown = new Set(asked || everything ? found : found.filter((card) => card.dataset.later === undefined).slice(0, first));
    for (const card of cards()) card.hidden = !shown.has(card) && !card.querySelector(":checked");
    if (all) {
      all.hidden = asked || shown.size === found.length;
      all.textContent = `Show all ${many(total)}`;
    }
    const message = !asked ? "" : found.length ? `${many(found.length)} of ${total}.` : `No ${noun} matches. Use fewer words or tags.`;
    if (count.textContent !== message) count.textContent = message;
    onFound({ text: search.value.trim(), tags, found: found.length });
  }

  search.addEventListener("input", (event) => {
    event.stopPropagation(); // not a field of the form around it
    look();
  });
  search.addEventListener("change", (event) => event.stopPropagation());
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // do not submit the form around it
    found[0]?.querySelector(go)?.focus();
  });
  for (const button of filters) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      look();
    });
  }
  all?.addEventListener("click", () => {
    const hidden = found.filter((card) => card.hidden);
    everything = true;
    look();
    hidden[0]?.querySelector(go)?.focus();
  });
  return look;
}
