"""Random and mutated records of every kind: the package's answer against jsonschema-rs with a CEL engine.

    PYTHONPATH=tests python -m differential.run [-n COUNT] [--seed SEED] [--jobs J] [--index I]

Prints the seed, what each kind answered, and how often each rule and each keyword refused. `--index` runs one case of a
seed and shows it. Exit code: 0 where all agree and nothing was vacuous, 1 where not.
"""

import argparse
import json
import os
import secrets
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import chain

from differential.answers import Generic, disagreement, ours
from differential.cases import ROOT, Cases

BUNDLE = ROOT / "schemas/bundle.json"
CHUNK = 2_000
MOST_SHOWN = 10
LAYERS = ("valid", "shape", "rule", "wire", "unreadable")
# The kinds of refusal at the layer of shape, each of which some schema can give.
SHAPE_KINDS = ("type", "required", "unknown_name", "enum", "pattern", "min_length", "max_length", "minimum", "maximum",
               "exclusive_minimum", "min_items", "max_items")  # fmt: skip


class Harness:
    """The cases of a bundle, and both answers to them."""

    def __init__(self, bundle):
        self.cases, self.generic = Cases(bundle), Generic(bundle)

    def look(self, case):
        """(what differs or None, our answer, theirs)."""
        data = self.cases.data(case)
        mine, theirs = ours(case.kind, data), self.generic.answer(case.kind, data)
        return disagreement(mine, theirs), mine, theirs

    def shrunk(self, case):
        """The case with every mutation left out that the disagreement does without."""
        for smaller in case.smaller():
            if self.look(smaller)[0] is not None:
                return self.shrunk(smaller)
        return case

    def counted(self, seed, indices):
        """(what was answered, the indices where the answers differ)."""
        counts, wrong = Counter(), []
        for index in indices:
            case = self.cases.case(seed, index)
            differs, mine, theirs = self.look(case)
            counts["layer", case.kind, theirs.layer] += 1
            if mine.layer == "shape" and theirs.layer == "shape":
                counts["keyword", mine.kind] += 1
            counts.update(("rule", case.kind, identity) for _, identity in theirs.rules)
            if differs is not None:
                wrong.append(index)
        return counts, wrong

    def described(self, seed, index):
        case = self.cases.case(seed, index)
        small = self.shrunk(case) if self.look(case)[0] else case
        differs, mine, theirs = self.look(small)
        return (f"--seed {seed} --index {index}: {case.kind}: {differs or 'both agree'}\n  ours   {mine}\n  theirs {theirs}\n"
                f"  {small}\n  {self.cases.data(small)!r}")  # fmt: skip


@cache
def harness():
    return Harness(json.loads(BUNDLE.read_text(encoding="utf-8")))


def counted(seed, start, stop):
    return harness().counted(seed, range(start, stop))


def vacuous(counts, bundle, floor):
    """What was seen less than `floor` times: an answer of a kind, a rule, a keyword."""
    for kind, entry in bundle["x-firstnan-kinds"].items():
        expected = ("valid", "shape", *(["rule"] if entry["rules"] else []), *(["wire"] if entry["integers"] else []))
        names = [("layer", kind, layer) for layer in expected] + [("rule", kind, rule["id"]) for rule in entry["rules"]]
        yield from (f"{kind} {name[2]}: {counts[name]}" for name in names if counts[name] < floor)
    yield from (f"{kind}: {counts['keyword', kind]}" for kind in SHAPE_KINDS if counts["keyword", kind] < floor)


def table(counts, bundle):
    yield f"{'kind':28}" + "".join(f"{layer:>12}" for layer in LAYERS) + "  rules that refused"
    for kind, entry in bundle["x-firstnan-kinds"].items():
        cells = "".join(f"{counts['layer', kind, layer]:>12,}" for layer in LAYERS)
        rules = dict.fromkeys(rule["id"] for rule in entry["rules"])
        yield f"{kind:28}{cells}  " + ", ".join(f"{rule} {counts['rule', kind, rule]:,}" for rule in rules)
    yield "shape: " + ", ".join(f"{kind} {counts['keyword', kind]:,}" for kind in SHAPE_KINDS)


def run(seed, count, jobs, say=print):
    """Runs cases 0 to `count` of a seed; True where all agree and nothing was vacuous."""
    bundle = json.loads(BUNDLE.read_text(encoding="utf-8"))
    say(f"seed {seed}, {count:,} records", flush=True)
    begun, total, wrong = time.monotonic(), Counter(), []
    starts = range(0, count, CHUNK)
    stops = [min(start + CHUNK, count) for start in starts]
    with ProcessPoolExecutor(jobs) if jobs > 1 else Here() as pool:
        for done, (counts, differing) in enumerate(pool.map(counted, [seed] * len(starts), starts, stops), 1):
            total += counts
            wrong += differing
            if done % 50 == 0:
                say(f"{done * CHUNK:,} after {time.monotonic() - begun:.0f} s, {len(wrong)} differ", flush=True)
    seconds = time.monotonic() - begun
    for line in chain(table(total, bundle), (harness().described(seed, index) for index in wrong[:MOST_SHOWN])):
        say(line)
    # One in 20,000 of a run, since the rarest rule fires on one in 3,000 records.
    rare = list(vacuous(total, bundle, max(1, count // 20_000)))
    say(f"{count:,} records in {seconds:.0f} s, {count / seconds:,.0f} a second by {jobs}: {len(wrong)} differ")
    for line in rare:
        say(f"too rare to say anything: {line}")
    return not wrong and not rare


class Here:
    """An executor in this process."""

    map = staticmethod(map)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--count", type=int, default=1_000_000, help="how many records (default 1,000,000)")
    parser.add_argument("--seed", type=int, help="of an earlier run; else a new one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--index", type=int, help="only this case of the seed, shown")
    arguments = parser.parse_args()
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    if arguments.index is not None:
        print(harness().described(seed, arguments.index))
        return int(harness().look(harness().cases.case(seed, arguments.index))[0] is not None)
    return 0 if run(seed, arguments.count, arguments.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
