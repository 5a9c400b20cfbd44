// The types of canonical.mjs.

/** An integer is a bigint, a float a number, an object a Map. */
export type Value = null | boolean | string | bigint | number | Value[] | Map<string, Value>;
export type Profile = "record" | "evidence";

export class Refused extends Error {}
export function read(text: string | Uint8Array, maxDepth?: number): Value;
export function write(value: Value, profile: Profile, maxBytes?: number): Uint8Array;
export function canonicalize(text: string | Uint8Array, profile: Profile, maxBytes?: number): Uint8Array;
export function sha256(bytes: Uint8Array): string;
export function contentId(prefix: string, bytes: Uint8Array): string;
