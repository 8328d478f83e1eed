/** Elements of the side panels. Text only, no markup. */

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  text = '',
  className = ''
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  node.textContent = text;
  node.className = className;
  return node;
}

export function write(node: HTMLElement, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
  node.hidden = !text;
}

/** Returns a button; `label` is its name where the text alone does not say enough. */
export function button(text: string, click: () => void, label = ''): HTMLButtonElement {
  const node = element('button', text, 'jp-Button jp-mod-styled jp-mod-minimal portal-Button');
  node.type = 'button';
  if (label) {
    node.setAttribute('aria-label', label);
  }
  node.addEventListener('click', click);
  return node;
}
