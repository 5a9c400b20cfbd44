// Round trip of every valid vector through the declarations; one JSON line a vector (see ../round_trip.py).
// Usage: node round_trip.mjs VECTORS
//
// A declaration is gone when this runs, so round_trip.py writes each record as a literal too, in literals.mts: the compiler
// says whether it is of its type, and its bytes are compared with those of the record that was read.

import { readFileSync } from "node:fs";

import { fromRecord, toRecord } from "../../types/typescript/adapter.mjs";
import type { Kinds } from "../../types/typescript/kinds.js";
import type { StageMessage, WorkerEvent } from "../../types/typescript/records.js";
import { type Profile, read, sha256, write } from "../node/canonical.mjs";
import { literals } from "../../out/types/literals.mjs";

type Vector = { vector: string; kind: keyof Kinds; profile: Profile; text: string };

// What the declarations must refuse. Each of these lines compiles only if its error is there.
// @ts-expect-error a member is missing
export const missing: WorkerEvent = { event: "failed", monotonic_s: 1, kind: "x" };
// @ts-expect-error a member of another event
export const foreign: WorkerEvent = { event: "failed", monotonic_s: 1, kind: "x", message: "", pid: 1n };
// @ts-expect-error a number for an integer
export const inexact: StageMessage["sequence"] = 5;
// @ts-expect-error no such value
export const unknown: StageMessage["stage"] = "lost";

const lines = readFileSync(process.argv[2]!, "utf8").split("\n").filter((line) => line !== "");
for (const [index, line] of lines.entries()) {
  const { vector, kind, profile, text } = JSON.parse(line) as Vector;
  const [record, literal] = [toRecord(kind, read(text)), literals[index]!].map((each) => write(fromRecord(each), profile));
  if (sha256(record!) !== sha256(literal!)) throw new Error(`${vector}: the literal has other bytes`);
  process.stdout.write(`${JSON.stringify({ vector, bytes: sha256(record!) })}\n`);
}
