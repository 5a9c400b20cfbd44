"""Texts at, just inside and just outside each production: derivations of which one place lies on or over an edge.

Nothing here says whether a text is right: what is outside one production may well be inside another. The recogniser does.
"""

from .abnf import Alternation, Concatenation, Name, Range, Series, grammar

LAST = 0x10FFFF


class Variants:
    def __init__(self, file, last=LAST):
        self.rules, self.last = grammar(file), last
        self.shortest = self.shortest_of_rules()

    def shortest_of_rules(self):
        """The shortest text of each rule, as a tuple of code points."""
        known = {}
        while True:
            more = {name: text for name, node in self.rules.items() if (text := self.least(node, known)) is not None}
            if more == known:
                return known
            known = more

    def least(self, node, known):
        if isinstance(node, Name):
            return known.get(node.name)
        if isinstance(node, Range):
            # The first letter of a range where it has one, so that texts can be read.
            return (max(node.low, ord("a")) if node.high >= ord("a") else node.low,)
        if isinstance(node, Series):
            return tuple(ranges[0].low for ranges in node.points)
        if isinstance(node, Alternation):
            texts = [text for option in node.options if (text := self.least(option, known)) is not None]
            return min(texts, key=len, default=None)
        parts = node.parts if isinstance(node, Concatenation) else (node.of,) * node.low
        texts = [self.least(part, known) for part in parts]
        return None if None in texts else tuple(point for text in texts for point in text)

    def of(self, node, depth):
        """Texts of a node; a rule within itself is entered once, the first rule twice."""
        least = self.least(node, self.shortest)
        if isinstance(node, Name):
            return self.of_rule(node.name, depth)
        if isinstance(node, Range):
            edges = {node.low - 1, node.low, node.low + 1, node.high - 1, node.high, node.high + 1}
            return {(point,) for point in edges if 0 <= point <= self.last}
        if isinstance(node, Series):
            return self.of_series(node, least)
        if isinstance(node, Alternation):
            return set().union(*(self.of(option, depth) for option in node.options))
        if isinstance(node, Concatenation):
            return self.of_parts(list(node.parts), depth)
        return self.of_repetition(node, depth)

    def of_rule(self, name, depth):
        entered = depth.get(name, 1)
        if entered == 0:
            return {self.shortest[name]}
        return self.of(self.rules[name], {**depth, name: entered - 1})

    def of_series(self, node, least):
        out = {least, least[:-1], least[1:], least + least[-1:]}
        for place, ranges in enumerate(node.points):
            for one in ranges:
                for point in {one.low - 1, one.low, one.low + 1, one.low ^ 0x20}:
                    if 0 <= point <= self.last:
                        out.add((*least[:place], point, *least[place + 1 :]))
        return out

    def of_parts(self, parts, depth):
        texts = [self.least(part, self.shortest) for part in parts]
        out = {joined(texts)}
        for place, part in enumerate(parts):
            before, after = joined(texts[:place]), joined(texts[place + 1 :])
            out |= {before + text + after for text in self.of(part, depth)}
            out |= {before + after, before + texts[place] * 2 + after}
            if place:
                out.add(joined([*texts[: place - 1], texts[place], texts[place - 1], *texts[place + 1 :]]))
        return out

    def of_repetition(self, node, depth):
        least = self.least(node.of, self.shortest)
        most = node.low + 2 if node.high is None else node.high + 1
        out = {least * count for count in range(max(0, node.low - 1), most + 1)}
        for text in self.of(node.of, depth):
            for count in {max(1, node.low), max(1, node.high or node.low + 1)}:
                out |= {text + least * (count - 1), least * (count - 1) + text}
        return out


def joined(texts):
    return tuple(point for text in texts for point in text)


def of_file(file, last=LAST):
    """Production → its texts, in order of the file; each is a tuple of code points or octets."""
    variants = Variants(file, last)
    return {name: sorted(variants.of_rule(name, {name: 2})) for name in variants.rules}
