// A button that copies a text. Browsers allow that only over TLS or from localhost: elsewhere it stays hidden.

import { tell } from "./dialog.js";

export function copies(button, text, words) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", () =>
    tell(async () => {
      await navigator.clipboard.writeText(text);
      return words;
    }),
  );
}
