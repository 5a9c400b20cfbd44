"""The links of one equation: those that its inputs come by, and those that it adds for its outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from firstnan.jax.births.cells import Cell, Kind, Link, Site
from firstnan.jax.births.operands import facts_of


class Trail:
    """`links` are all of them, by number. `numbers` goes on from equation to equation: it is the order of the walk."""

    def __init__(
        self, site: Site, iteration: tuple[int, ...], ins: Sequence[Cell], values: Sequence[Any], numbers: Iterator[int]
    ) -> None:
        self.links = {number: link for cell in ins for number, link in cell.links.items()}
        self._site, self._iteration = site, iteration
        self._ins, self._values, self._numbers = ins, values, numbers

    def add(self, kind: Kind, parents: Collection[int], out: Cell, born: Any = None) -> int:
        """A new link of an output; `born` is a mask of the elements that are born, None where none is.

        A birth takes down what a report needs of the inputs and outputs, since the values are not kept.
        """
        facts = None if born is None else facts_of(born, self._ins, self._values, out)
        number = next(self._numbers)
        by = tuple(self.links[parent] for parent in sorted(parents))
        self.links[number] = Link(number, kind, self._site, self._iteration, by, facts)
        return number

    def enter(self) -> int:
        """A new link for an infinity of the program that meets a value of the step."""
        number = next(self._numbers)
        self.links[number] = Link(number, "inf", self._site, self._iteration, (), constant=True)
        return number
