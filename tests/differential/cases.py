"""Case number `index` of a seed: a record of a kind with none, one or a few things changed, the same in every run."""

import copy
import json
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path

from differential.grammar import Grammar
from differential.mutations import OF_TEXT, damage, mutate, text_of

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "schemas/vectors/records"


@dataclass(frozen=True)
class Case:
    """How a record is made: `tree`, `spelling` and `edits` are the seeds of its mutations, in the order of their use."""

    kind: str
    seed: int
    base: int
    tree: tuple[int, ...] = ()
    spelling: tuple[int, ...] = ()
    edits: tuple[int, ...] = ()

    def smaller(self):
        """The cases that lack one of the mutations, or else stand on the kind's first example."""
        for field in ("edits", "spelling", "tree"):
            seeds = getattr(self, field)
            for at in range(len(seeds)):
                yield replace(self, **{field: seeds[:at] + seeds[at + 1 :]})
        if self.base != 0:
            yield replace(self, base=0)


class Cases:
    """The cases of a bundle."""

    def __init__(self, bundle):
        self.grammar = Grammar(bundle).kinds
        self.kinds = list(self.grammar)
        self.accepted = {kind: accepted(bundle, entry, kind) for kind, entry in bundle["x-firstnan-kinds"].items()}
        # The members that rules speak of.
        self.ruled = {
            kind: frozenset(re.findall(r"\.(\w+)", " ".join(rule["rule"] for rule in entry["rules"])))
            for kind, entry in bundle["x-firstnan-kinds"].items()
        }

    def case(self, seed, index):
        """Kinds take turns, so that every run of some length has each of them as often."""
        kind = self.kinds[index % len(self.kinds)]
        rng = random.Random(seed << 40 | index)
        word = lambda: rng.getrandbits(48)  # noqa: E731
        bases = len(self.accepted[kind])
        # One in three is drawn from the grammar alone (-1), whose rules hold where that is easy.
        base = -1 if rng.random() < 0.34 else rng.randrange(bases)
        tree = tuple(word() for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])))
        spelling = (word(),) if rng.random() < 0.15 else ()
        edits = tuple(word() for _ in range(rng.choice([0] * 14 + [1, 2])))
        return Case(kind, word(), base, tree, spelling, edits)

    def data(self, case):
        """The bytes of a case."""
        node = self.grammar[case.kind]
        value = node.draw(random.Random(case.seed)) if case.base < 0 else copy.deepcopy(self.accepted[case.kind][case.base])
        for seed in case.tree:
            value = mutate(random.Random(seed), value, node, self.ruled[case.kind])
        text = text_of(value)
        for seed in case.spelling:
            rng = random.Random(seed)
            text = rng.choice(OF_TEXT)(rng, text)
        data = text.encode(errors="surrogatepass")
        for seed in case.edits:
            data = damage(random.Random(seed), data)
        return data


def accepted(bundle, entry, kind):
    """The examples of a schema, and the vectors that are accepted where there are some."""
    schema = next(schema for schema in bundle["$defs"].values() if schema["$id"] == entry["schema"])
    values = list(schema["examples"])
    path = VECTORS / f"{kind}.jsonl"
    if path.exists():
        vectors = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        values += [json.loads(vector["canonical"]) for vector in vectors if vector["accept"]]
    return values
