// Finds among many cards by words and tags, while one types. Each card has data-search (what is looked
// through, in lower case) and data-tags (one a line). `first`: how many are shown before anything is
// asked for; a card that holds a checked field is always shown. `go`: what of a card Enter leads to.
// Returns a function that looks again.
function finder({ cards, search, filters, count, all, first = Infinity, noun, go, onFound = () => {} }) {
  const total = cards().length;
  const many = (number) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  let everything = false;
  let found = [];

  function look() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const tags = [...filters].filter((one) => one.getAttribute("aria-pressed") === "true").map((one) => one.dataset.tag);
    const asked = words.length + tags.length > 0;
    found = cards().filter((card) => {
      const has = card.dataset.tags.split("\n");
      return words.every((word) => card.dataset.search.includes(word)) && tags.every((tag) => has.includes(tag));
    });
    const shown = new Set(asked || everything ? found : found.slice(0, first));
    for (const card of cards()) card.hidden = !shown.has(card) && !card.querySelector(":checked");
    if (all) {
      all.hidden = asked || shown.size === found.length;
      all.textContent = `Show all ${many(total)}`;
    }
    const told = !asked ? "" : found.length ? `${many(found.length)} of ${total}.` : `No ${noun} fits. Search for less.`;
    if (count.textContent !== told) count.textContent = told;
    onFound({ text: search.value.trim(), tags, found: found.length });
  }

  search.addEventListener("input", (event) => {
    event.stopPropagation(); // it is no field of the form around it
    look();
  });
  search.addEventListener("change", (event) => event.stopPropagation());
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // it would send the form around it
    found[0]?.querySelector(go)?.focus();
  });
  for (const one of filters) {
    one.addEventListener("click", () => {
      one.setAttribute("aria-pressed", String(one.getAttribute("aria-pressed") !== "true"));
      look();
    });
  }
  all?.addEventListener("click", () => {
    everything = true;
    look();
    found[first]?.querySelector(go)?.focus();
  });
  return look;
}
