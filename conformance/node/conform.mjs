// Runs every vector through ajv, a CEL engine and canonical.mjs; one JSON line a vector (see ../run.py).
// Usage: node conform.mjs BUNDLE VECTORS...

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

import Ajv2020 from "ajv/dist/2020.js";
import { parse } from "@marcbachmann/cel-js";

import { canonicalize, contentId, read, sha256, wellFormed, write } from "./canonical.mjs";

const FOLDERS = ["canonical", "kinds", "lifecycle", "records", "triage", "wire"];
const [bundlePath, ...roots] = process.argv.slice(2);
if (roots.length === 0) {
  console.error("usage: node conform.mjs BUNDLE VECTORS...");
  process.exit(2);
}
const bundle = JSON.parse(readFileSync(bundlePath, "utf8"));
const kinds = bundle["x-firstnan-kinds"];
const ajv = new Ajv2020({ strict: false, allErrors: false });
for (const schema of Object.values(bundle.$defs)) ajv.addSchema(schema);
for (const kind of Object.values(kinds)) {
  kind.validate = ajv.getSchema(kind.schema);
  for (const rule of kind.rules) rule.holds = parse(rule.rule);
}
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function attempt(job) {
  try {
    return job();
  } catch {
    return null;
  }
}

/** CEL wants objects; numbers are BigInt or Number as `read` made them. */
function plain(value) {
  if (value instanceof Map) return Object.fromEntries([...value].map(([name, member]) => [name, plain(member)]));
  return Array.isArray(value) ? value.map(plain) : value;
}

/** What stands at a path such as /stages/*, null left out. */
function valuesAt(value, path) {
  let found = [value];
  for (const name of path.split("/").slice(1)) found = found.flatMap((each) => (name === "*" ? each : [each[name]]));
  return found.filter((each) => each !== null);
}

/** The objects that a rule or an integer of the bundle is about. */
function objects(value, { path, when }) {
  const [tag, wanted] = when?.split("=") ?? [];
  return valuesAt(value, path).filter((object) => tag === undefined || object[tag] === wanted);
}

function rulesHold(kind, value) {
  return kind.rules.every((rule) => objects(value, rule).every((self) => attempt(() => rule.holds({ self })) === true));
}

/** JSON Schema takes 5.0 for an integer; the contract does not. */
function integersAreIntegers(kind, value) {
  return kind.integers.every((integer) =>
    objects(value, integer).every((object) => valuesAt(object, integer.member).every((each) => typeof each === "bigint")),
  );
}

function identity(name, value, bytes) {
  if (kinds[name].profile === "record") return sha256(bytes);
  if (name === "training-incident-contract") return contentId(name, bytes);
  if (name !== "training-run-evidence") return null;
  const members = ["contract_content_id", "evidence_id", "stages"].map((member) => [member, value.get(member)]);
  return contentId("training-incident-evidence", write(new Map(members), "evidence"));
}

function record(vector, name, text, onWire = false) {
  const kind = kinds[name];
  const parsed = attempt(() => ({ value: JSON.parse(utf8.decode(text)) }));
  const shape = parsed === null ? null : kind.validate(parsed.value);
  const exact = attempt(() => ({ value: read(text) }));
  const value = exact && plain(exact.value);
  const rule = shape === true && exact !== null ? rulesHold(kind, value) : null;
  const bytes = attempt(() => canonicalize(text, kind.profile));
  const right = rule === true && bytes !== null && integersAreIntegers(kind, value) && wellFormed(exact.value);
  const valid = right && (!onWire || bytes.equals(text));
  return {
    vector, shape, rule, valid,
    bytes: bytes && sha256(bytes),
    identity: valid ? identity(name, exact.value, bytes) : null,
  };
}

function canonical(vector, profile, text, maxBytes) {
  const bytes = attempt(() => canonicalize(text, profile, maxBytes));
  const named = bytes !== null && profile === "evidence" && bytes[0] === 0x7b;
  return { vector, bytes: bytes && sha256(bytes), identity: named ? contentId("vector", bytes) : null };
}

function float(vector, bits) {
  const bytes = write(Buffer.from(bits, "hex").readDoubleBE(), "evidence");
  return { vector, bytes: sha256(bytes) };
}

/** The vectors of one file as answers; an object inside a vector is taken as its canonical text. */
function* answers(folder, file, vectors) {
  for (const [index, vector] of vectors.entries()) {
    const id = `${folder}/${vector.get("case") ?? `${basename(file, ".jsonl")}-${index}`}`;
    const text = (name) => Buffer.from(vector.get(name) ?? "");
    if (folder === "kinds" || folder === "records") yield record(id, basename(file, ".jsonl"), text("text"));
    if (folder === "wire") yield record(id, basename(file, ".jsonl"), Buffer.from(vector.get("hex"), "hex"), true);
    if (file === "float64-text.jsonl") yield float(id, vector.get("bits"));
    else if (folder === "canonical") {
      const maxBytes = Number(vector.get("max_bytes") ?? 65536n);
      yield canonical(id, basename(file, "-profile.jsonl"), text("text"), maxBytes);
    }
    if (folder === "triage") {
      yield record(`${id}/contract`, "training-incident-contract", text("contract"));
      yield record(`${id}/evidence`, "training-run-evidence", text("evidence"));
      if (vector.has("report")) yield record(`${id}/report`, "incident-report", write(vector.get("report"), "evidence"));
    }
    if (file === "inventory-consensus.jsonl") {
      yield record(`${id}/identity`, "run-identity", write(vector.get("identity"), "evidence"));
      for (const [i, inventory] of vector.get("inventories").entries()) {
        yield record(`${id}/inventories/${i}`, "rank-inventory", write(inventory, "evidence"));
      }
    }
  }
}

for (const root of roots) {
  for (const folder of FOLDERS.filter((name) => existsSync(join(root, name)))) {
    for (const file of readdirSync(join(root, folder)).filter((name) => name.endsWith(".jsonl")).sort()) {
      const lines = readFileSync(join(root, folder, file), "utf8").split("\n").filter((line) => line !== "");
      for (const answer of answers(folder, file, lines.map((line) => read(line)))) {
        process.stdout.write(`${JSON.stringify(answer)}\n`);
      }
    }
  }
}
const meta = ajv.getSchema(bundle.$defs.meta.$id);
for (const name of Object.keys(kinds)) {
  process.stdout.write(`${JSON.stringify({ vector: `schema/${name}`, shape: meta(bundle.$defs[name]) })}\n`);
}
