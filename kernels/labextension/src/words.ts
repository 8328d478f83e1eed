/** Numbers in words. Unknown values are "unknown", never 0. */
import type { Reading, Situation } from './situations';

export const UNKNOWN = 'unknown';

/** Seconds as on the portal's pages: "45 s", "12 min", "1 h 5 min", "2 h", "3 d 4 h". */
export function duration(seconds: number): string {
  const all = Math.max(0, Math.floor(seconds));
  if (all < 60) {
    return `${all} s`;
  }
  const minutes = Math.floor(all / 60);
  const days = Math.floor(minutes / 1440);
  const parts: [number, string][] = [
    [days, 'd'],
    [Math.floor(minutes / 60) % 24, 'h'],
    [days ? 0 : minutes % 60, 'min']
  ];
  return parts
    .filter(([number]) => number)
    .map(([number, unit]) => `${number} ${unit}`)
    .join(' ');
}

export function timeLeft(left: number | null): string {
  return left === null ? `time left ${UNKNOWN}` : left <= 0 ? 'time is up' : `${duration(left)} left`;
}

/** The local time `ahead` seconds from now. */
export function clock(ahead: number): string {
  const then = new Date(Date.now() + ahead * 1000);
  const today = then.toDateString() === new Date().toDateString();
  const time = then.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  return today ? time : `${then.toLocaleDateString([], { day: 'numeric', month: 'short' })}, ${time}`;
}

export function percent(value: number | null): string {
  return value === null ? UNKNOWN : `${Math.round(value)} %`;
}

/** "3.1 of 16 GiB" from MiB. */
export function memory(used: number | null, total: number | null): string {
  if (used === null) {
    return total === null ? UNKNOWN : `${UNKNOWN} of ${gib(total)} GiB`;
  }
  return total === null ? `${gib(used)} GiB` : `${gib(used)} of ${gib(total)} GiB`;
}

/** "3.1 GB" from bytes. */
export function bytes(size: number): string {
  for (const unit of ['B', 'kB', 'MB', 'GB']) {
    if (size < 1000) {
      return `${size < 10 && unit !== 'B' ? size.toFixed(1) : Math.round(size)} ${unit}`;
    }
    size /= 1000;
  }
  return `${size.toFixed(1)} TB`;
}

function gib(mib: number): string {
  const value = mib / 1024;
  return value < 10 && value % 1 ? value.toFixed(1) : String(Math.round(value));
}

/** Whether the session has GPUs, as far as known. */
export function hasGpus(situation: Situation | null, reading: Reading | null): boolean {
  return !!(situation?.gpus.length || reading?.gpus.length);
}
