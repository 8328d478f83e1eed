// The answer of each call, from the API's own document (api.d.ts is generated from it).
import type { paths, components } from "portal-api";

export type Schemas = components["schemas"];
type Split<S extends string> = S extends `${infer Head}/${infer Rest}` ? [Head, ...Split<Rest>] : [S];
type Fits<S extends string[], K extends string[]> =
  S extends [infer A extends string, ...infer R extends string[]]
    ? K extends [infer B extends string, ...infer Q extends string[]]
      ? B extends `{${string}}` ? Fits<R, Q> : string extends A ? false : A extends B ? Fits<R, Q> : false
      : false
    : K extends [] ? true : false;
type Key<S extends string> = { [K in keyof paths & string]: Fits<Split<`/${S}`>, Split<K>> extends true ? K : never }[keyof paths & string];
type Literal<S extends string> = Key<S> extends infer K ? (`/${S}` extends K ? `/${S}` : K) : never;
type Content<O> = O extends { responses: infer R } ? Body<R[keyof R & (200 | 201 | 202)]> : unknown;
type Body<T> = T extends { content: { "application/json": infer J } } ? J : null;
// An address that is put together elsewhere is any text: its answer is not known here.
export type Answer<S extends string, M extends string> = S extends unknown
  ? string extends S ? any
  : [Literal<S>] extends [never] ? unknown
  : Lowercase<M> extends keyof paths[Literal<S> & keyof paths] ? Content<paths[Literal<S> & keyof paths][Lowercase<M>]>
  : unknown
  : never;
export interface Options<M extends string> { method?: M; query?: Record<string, unknown>; body?: unknown; signal?: AbortSignal }
export function call<const S extends string, const M extends string = "GET">(path: S, options?: Options<M>): Promise<Answer<S, M>>;

// The steps of an address, joined with slashes.
export type Joined<W extends readonly string[]> = W extends readonly [infer A extends string, ...infer R extends string[]]
  ? R extends [] ? A : `${A}/${Joined<R>}`
  : string;
export type PathBelow<Root extends string> = <const W extends readonly string[]>(name: string, ...more: W) => Joined<[Root, string, ...W]>;
