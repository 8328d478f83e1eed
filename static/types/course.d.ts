import type { Joined } from "./call";

export type PersonPath = <const W extends readonly string[]>(course: string, name: string, ...more: W) => Joined<["courses", string, "people", string, ...W]>;
