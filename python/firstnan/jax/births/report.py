"""From the outputs of a walk back to the births that reach them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firstnan.jax.births.cells import Cell, Kind, Link
from firstnan.jax.births.findings import Birth, Constant
from firstnan.jax.births.sources import place_of


@dataclass(frozen=True, slots=True)
class Reached:
    """A non-finite output, or a leaf of it that `count_stages` counted, by name."""

    name: str
    cell: Cell

    @property
    def links(self) -> list[Link]:
        return list(self.cell.links.values())


def first_birth(kind: Kind, reached: Sequence[Reached], arguments: Sequence[str]) -> Birth | None:
    """The earliest birth of a kind whose NaN or Inf is in one of these outputs."""
    towards = _ways_to_outputs(reached)
    births = [link for link in towards if link.kind == kind and link.facts is not None]
    if not births:
        return None
    birth = min(births, key=lambda link: link.number)
    assert birth.facts is not None
    path = [birth]
    while (following := towards[path[-1]]) is not None:
        path.append(following)
    places = tuple(map(place_of, path))
    return Birth(
        kind=kind,
        primitive=places[0].primitive,
        file=places[0].file,
        line=places[0].line,
        function=places[0].function,
        iteration=places[0].iteration,
        sweep=places[0].sweep,
        inputs=birth.facts.inputs,
        outputs=birth.facts.outputs,
        index=birth.facts.index,
        sources=tuple(name for n, name in enumerate(arguments) if birth.facts.arguments >> n & 1),
        path=places,
        reaches=_outputs_of(birth, towards, reached),
    )


def constants_of(reached: Sequence[Reached]) -> tuple[Constant, ...]:
    """The infinities of the program in these outputs or behind their NaN, each line and primitive once, in order."""
    towards = _ways_to_outputs(reached)
    in_order = sorted(towards, key=lambda link: link.number)
    found: dict[tuple[Any, ...], Constant] = {}
    for link in in_order:
        if not link.constant:
            continue
        place = place_of(link)
        same = (place.primitive, place.file, place.line)
        known = found.get(same)
        if known is None or known.nan is None:
            nan = _first_nan_of(link, in_order)
            reaches = _outputs_of(link, towards, reached)
            found[same] = Constant(
                place=place if known is None else known.place,
                nan=None if nan is None else place_of(nan),
                reaches=reaches if known is None else tuple(dict.fromkeys(known.reaches + reaches)),
            )
    return tuple(found.values())


def _first_nan_of(constant: Link, in_order: Sequence[Link]) -> Link | None:
    """The first NaN that is born from an infinity; along its way it may pass any equation that keeps it infinite."""
    infinite = {constant}
    for link in in_order:
        if infinite.isdisjoint(link.parents):
            continue
        if link.kind == "nan" and link.facts is not None:
            return link
        if link.kind == "inf":
            infinite.add(link)
    return None


def _ways_to_outputs(reached: Sequence[Reached]) -> dict[Link, Link | None]:
    """Every link that outputs come from, and the next one on a shortest way to an output; None at the output."""
    towards: dict[Link, Link | None] = {link: None for output in reached for link in output.links}
    waiting: deque[Link] = deque(towards)
    while waiting:
        link = waiting.popleft()
        for parent in link.parents:
            if parent not in towards:
                towards[parent] = link
                waiting.append(parent)
    return towards


def _outputs_of(birth: Link, links: dict[Link, Any], reached: Sequence[Reached]) -> tuple[str, ...]:
    """The outputs that a birth reaches by any way. A link's parents have lower numbers, so one pass in order does."""
    from_birth = {birth}
    for link in sorted(links, key=lambda link: link.number):
        if not from_birth.isdisjoint(link.parents):
            from_birth.add(link)
    return tuple(output.name for output in reached if not from_birth.isdisjoint(output.links))
