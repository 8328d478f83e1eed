/** A sparkline of the last hour, drawn in SVG. */

const WIDTH = 300;
const HEIGHT = 44;
const SPAN = 3600; // seconds
const GAP = 150; // seconds without a reading that interrupt the line

export interface Point {
  time: number;
  value: number | null;
}

/** The lines of `points`, as SVG's path data; `top` is the value of the upper edge. */
export function path(points: readonly Point[], top: number, now: number): string {
  let data = '';
  let last: number | null = null;
  for (const { time, value } of points) {
    if (value === null) {
      last = null;
      continue;
    }
    const x = Math.max(0, WIDTH - ((now - time) / SPAN) * WIDTH).toFixed(1);
    const y = (HEIGHT - (Math.min(value, top) / (top || 1)) * HEIGHT).toFixed(1);
    // A single point gets a line of zero length, visible through its round cap.
    data += last !== null && time - last <= GAP ? `L${x} ${y}` : `M${x} ${y}h0`;
    last = time;
  }
  return data;
}

export class Plot {
  readonly node = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  private readonly _path = document.createElementNS('http://www.w3.org/2000/svg', 'path');

  constructor() {
    this.node.setAttribute('viewBox', `0 -2 ${WIDTH} ${HEIGHT + 4}`);
    this.node.setAttribute('preserveAspectRatio', 'none');
    this.node.setAttribute('role', 'img');
    this.node.classList.add('portal-Plot');
    this.node.append(this._path);
  }

  draw(points: readonly Point[], top: number, now: number, label: string): void {
    this._path.setAttribute('d', path(points, top, now));
    this.node.setAttribute('aria-label', label);
  }
}
