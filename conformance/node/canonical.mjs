// Canonical bytes and identities of firstnan's records: a strict JSON reader and a writer with two profiles.
//
// You may copy this file into your project: it needs nothing but Node 20 and stands under the Apache License 2.0
// (SPDX-License-Identifier: Apache-2.0). What it does is written in docs/canonical.md of firstnan, and
// `make conformance` holds it to every vector in schemas/vectors.
//
// JSON.parse will not do: it drops duplicate names, makes 1024 of 1024.0 and rounds integers beyond 2^53. Here an
// integer is a BigInt, a float a Number, an object a Map.

import { createHash } from "node:crypto";

const DEPTH = { record: 16, evidence: 256 };
const MAX_ITEMS = 4096;
const MAX_BYTES = 65536;
const MAX_DIGITS = 4300;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const WORDS = [["true", true], ["false", false], ["null", null]];

export class Refused extends Error {}

/** The value of a JSON text (a string, or bytes in UTF-8): RFC 8259 to the letter, no name twice. */
export function read(text, maxDepth = DEPTH.evidence) {
  if (typeof text !== "string") {
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(text);
    } catch {
      throw new Refused("not UTF-8");
    }
  }
  let at = 0;

  function space() {
    while (at < text.length && " \t\n\r".includes(text[at])) at++;
  }

  function take(character) {
    space();
    if (text[at] !== character) return false;
    at++;
    return true;
  }

  function expect(character) {
    if (!take(character)) throw new Refused(`${character} expected at ${at}`);
  }

  function string() {
    const start = at;
    expect('"');
    while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    at++;
    try {
      return JSON.parse(text.slice(start, at)); // refuses bad escapes, control characters and a missing quote
    } catch {
      throw new Refused(`not a string at ${start}`);
    }
  }

  function number() {
    NUMBER.lastIndex = at;
    const match = NUMBER.exec(text);
    if (match === null) throw new Refused(`no value at ${at}`);
    at = NUMBER.lastIndex;
    const [token, fraction, exponent] = match;
    if (fraction === undefined && exponent === undefined) {
      if (token.replace("-", "").length > MAX_DIGITS) throw new Refused("an integer of too many digits");
      return BigInt(token);
    }
    if (!Number.isFinite(Number(token))) throw new Refused("a float beyond binary64");
    return Number(token);
  }

  function array(depth) {
    const items = [];
    at++;
    if (take("]")) return items;
    do items.push(value(depth + 1));
    while (take(","));
    expect("]");
    return items;
  }

  function object(depth) {
    const members = new Map();
    at++;
    if (take("}")) return members;
    do {
      space();
      const name = string();
      if (members.has(name)) throw new Refused(`a name twice at ${at}`);
      expect(":");
      members.set(name, value(depth + 1));
    } while (take(","));
    expect("}");
    return members;
  }

  function value(depth) {
    if (depth > maxDepth) throw new Refused("nested too deep");
    space();
    if (text[at] === "{") return object(depth);
    if (text[at] === "[") return array(depth);
    if (text[at] === '"') return string();
    for (const [word, meaning] of WORDS) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return meaning;
      }
    }
    return number();
  }

  const result = value(0);
  space();
  if (at !== text.length) throw new Refused(`something after the value at ${at}`);
  return result;
}

/** The canonical bytes of a value as `read` gives it, in the profile "record" or "evidence". */
export function write(value, profile, maxBytes = MAX_BYTES) {
  const record = profile === "record";
  let items = 0;

  function text(value, depth) {
    items++;
    if (depth > DEPTH[profile]) throw new Refused("nested too deep");
    if (record && items > MAX_ITEMS) throw new Refused("too many values");
    if (value === null || typeof value === "boolean") return String(value);
    if (typeof value === "string") return string(value, record);
    if (typeof value === "bigint") return integer(value, record);
    if (typeof value === "number") return float(value, record);
    if (Array.isArray(value)) return `[${value.map((item) => text(item, depth + 1)).join(",")}]`;
    const names = [...value.keys()].sort(byCodePoint);
    return `{${names.map((name) => `${string(name, record)}:${text(value.get(name), depth + 1)}`).join(",")}}`;
  }

  const bytes = Buffer.from(text(value, 0));
  if (record && bytes.length > maxBytes) throw new Refused("too many bytes");
  return bytes;
}

/** From JSON text to canonical bytes. */
export function canonicalize(text, profile, maxBytes = MAX_BYTES) {
  return write(read(text, DEPTH[profile]), profile, maxBytes);
}

/** Whether no text in a value has a lone surrogate: no record may, though the evidence profile has bytes for one. */
export function wellFormed(value) {
  if (typeof value === "string") return value.isWellFormed();
  if (value instanceof Map) return [...value].every((member) => member.every((each) => wellFormed(each)));
  return !Array.isArray(value) || value.every((item) => wellFormed(item));
}

/** SHA-256 in lower-case hex: over `canonicalize(text, "record")` it is the digest of a record. */
export function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

/** PREFIX@sha256:HEX over canonical bytes of the evidence profile, such as a contract's with its kind as the prefix. */
export function contentId(prefix, bytes) {
  return `${prefix}@sha256:${sha256(bytes)}`;
}

function string(value, record) {
  if (record && !value.isWellFormed()) throw new Refused("a lone surrogate");
  const text = JSON.stringify(value); // its escapes below U+0020 are ours
  if (record) return text;
  return text.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function integer(value, record) {
  if (record && BigInt.asIntN(64, value) !== value) throw new Refused("an integer beyond 64 bits");
  return value.toString();
}

/** The shortest digits that read back, which String() finds, in the layout of Python's repr. */
function float(value, record) {
  if (record) throw new Refused("a float");
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const [digits, power] = String(Math.abs(value)).split("e");
  const [whole, fraction = ""] = digits.split(".");
  const significant = (whole + fraction).replace(/^0+/, "").replace(/0+$/, "") || "0";
  const leading = (whole + fraction).match(/^0*/)[0].length;
  const exponent = value === 0 ? 0 : whole.length - 1 - leading + Number(power ?? 0);
  if (exponent < -4 || exponent >= 16) {
    const mantissa = significant.length > 1 ? `${significant[0]}.${significant.slice(1)}` : significant;
    return `${sign}${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${significant}`;
  const padded = significant.padEnd(exponent + 2, "0");
  return `${sign}${padded.slice(0, exponent + 1)}.${padded.slice(exponent + 1)}`;
}

/** sort() alone would compare UTF-16 units, and put U+1F600 before U+FF5E. */
function byCodePoint(left, right) {
  const [a, b] = [left, right].map((name) => Array.from(name, (character) => character.codePointAt(0)));
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if (a[i] !== b[i]) return a[i] - b[i];
  }
  return a.length - b.length;
}
