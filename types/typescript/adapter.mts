// From what `read` of canonical.mjs gives to the declarations beside this file, and back to what its `write` takes.
// An integer is a BigInt, a float a Number: 1024 and 1024.0 have different identities, and JSON.parse rounds beyond 2^53.
// No bound and no rule is checked: validate first.

import type { Kinds } from "./kinds.js";

/** A value of canonical.mjs: an object is a Map. */
export type Exact = null | boolean | string | bigint | number | Exact[] | Map<string, Exact>;

type Plain = null | boolean | string | bigint | number | Plain[] | { [name: string]: Plain };

/** A validated value as a record of its kind. */
export function toRecord<K extends keyof Kinds>(_kind: K, value: Exact): Kinds[K] {
  return plain(value) as Kinds[K] & Plain;
}

/** A record as a value for `write`. */
export function fromRecord(record: Kinds[keyof Kinds]): Exact {
  return exact(record as unknown as Plain);
}

function plain(value: Exact): Plain {
  if (value instanceof Map) return Object.fromEntries([...value].map(([name, member]) => [name, plain(member)]));
  return Array.isArray(value) ? value.map(plain) : value;
}

function exact(value: Plain): Exact {
  if (Array.isArray(value)) return value.map(exact);
  if (value === null || typeof value !== "object") return value;
  return new Map(Object.entries(value).map(([name, member]) => [name, exact(member)]));
}
