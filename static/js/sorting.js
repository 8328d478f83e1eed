// gpu2 stands before gpu10.
const collator = new Intl.Collator("en", { numeric: true });
export const natural = (a, b) => collator.compare(a, b);
