"""Which texts a grammar derives, by Earley's algorithm: any context-free grammar, no recursion, every prefix at once."""

import itertools
from functools import cache

from .abnf import Alternation, Concatenation, Name, Range, Repetition, Series, grammar


class Recogniser:
    """Of the texts of a grammar file, as sequences of code points or octets."""

    def __init__(self, file):
        self.rules = {}
        """Symbol → its right sides, each a tuple of symbols (str) and of tuples of ranges."""
        nodes = grammar(file)
        for name, node in nodes.items():
            self.rules[name] = [self.sequence(option) for option in options_of(node)]
        self.start = next(iter(nodes))
        self.nullable = self.nullables()
        self.text, self.columns, self.scanned, self.verdicts = [], [], [], []
        self.kernels = [[(self.start, side, 0, 0) for side in self.rules[self.start]]]

    def sequence(self, node):
        if isinstance(node, Name):
            return (node.name,)
        if isinstance(node, Range):
            return ((node,),)
        if isinstance(node, Series):
            return node.points
        if isinstance(node, Concatenation):
            return tuple(symbol for part in node.parts for symbol in self.sequence(part))
        fresh = f"({len(self.rules)})"
        self.rules[fresh] = []
        if isinstance(node, Alternation):
            self.rules[fresh] += [self.sequence(option) for option in node.options]
            return (fresh,)
        assert isinstance(node, Repetition)
        once = self.sequence(node.of)
        if node.high is None:
            # Left recursion, which Earley's algorithm walks in linear time.
            self.rules[fresh] += [(), (fresh, *once)]
            return (*once * node.low, fresh)
        self.rules[fresh] += [once * count for count in range(node.low, node.high + 1)]
        return (fresh,)

    def nullables(self):
        found = set()
        while True:
            more = {name for name, sides in self.rules.items() if any(all(s in found for s in side) for side in sides)}
            if more == found:
                return found
            found = more

    def prefixes(self, text):
        """For each length from 0 on: is that prefix of the text a whole text? Ends where no text goes on so.

        So the length of the list, less one, is that of the longest prefix that some text of the grammar has. What the
        text before this one had in common with it is not walked again.
        """
        text = list(text)
        pairs = zip(text, self.text, strict=False)
        common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        self.text = text
        del self.kernels[common + 1 :], self.columns[common + 1 :], self.verdicts[common + 1 :], self.scanned[common + 1 :]
        for place in range(len(self.columns), len(text) + 1):
            if place:
                self.kernels[place:] = [self.scan(self.scanned[place - 1], text[place - 1])]
            if not self.kernels[place]:
                break
            items = self.close(self.kernels[place], place)
            self.scanned.append(items)
            self.verdicts.append(any(name == self.start and dot == len(side) and not from_ for name, side, dot, from_ in items))
        return self.verdicts[: len(text) + 1]

    @staticmethod
    def scan(items, point):
        return [
            (name, side, dot + 1, origin)
            for name, side, dot, origin in items
            if dot < len(side) and not isinstance(side[dot], str) and any(r.low <= point <= r.high for r in side[dot])
        ]

    def close(self, kernel, place):
        """Predicts and completes until nothing is new; keeps who waits for which symbol."""
        waiting = {}
        self.columns.append(waiting)
        items, seen = list(kernel), set(kernel)

        def add(item):
            if item not in seen:
                seen.add(item)
                items.append(item)

        for name, side, dot, origin in items:
            if dot == len(side):
                for waiter, its_side, its_dot, its_origin in self.columns[origin].get(name, ()):
                    add((waiter, its_side, its_dot + 1, its_origin))
            elif isinstance(side[dot], str):
                symbol = side[dot]
                if symbol not in waiting:
                    waiting[symbol] = []
                    for predicted in self.rules[symbol]:
                        add((symbol, predicted, 0, place))
                waiting[symbol].append((name, side, dot, origin))
                if symbol in self.nullable:
                    add((name, side, dot + 1, origin))
        return items

    def accepts(self, text):
        verdicts = self.prefixes(text)
        return len(verdicts) == len(text) + 1 and verdicts[-1]


def options_of(node):
    return node.options if isinstance(node, Alternation) else [node]


@cache
def json_text():
    return Recogniser("rfc8259.abnf")


@cache
def utf8():
    return Recogniser("rfc3629.abnf")


def accepts(data):
    """Are these bytes a JSON text in UTF-8? Of octets up to 0x7F, RFC 3629 allows all."""
    return (data.isascii() or utf8().accepts(data)) and json_text().accepts([ord(character) for character in data.decode()])
