"""The parts that a page is put together from."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from firstnan.report.markup import node


def command(text: str) -> Element:
    """A command to type."""
    return node("pre", node("code", text))


def facts(pairs: Sequence[tuple[str, Element | str]], kind: str = "facts") -> Element:
    """Names and what they stand for."""
    return node("dl", *(node("div", node("dt", name), node("dd", value)) for name, value in pairs), class_=kind)


def section(name: str, title: str, about: str | None, *children: Element) -> Element:
    """A section under a heading, which names it to a screen reader; `name` is the heading's id."""
    lead = None if about is None else node("p", about, class_="about")
    return node("section", node("h2", title, id=name), lead, *children, aria_labelledby=name)


def table(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> Element:
    """A table in a frame that scrolls. A column named with `#` holds numbers; each row has a class and its cells."""
    number = ["number" if column.startswith("#") else "" for column in columns]
    head = [
        node("th", column.removeprefix("#"), scope="col", class_=kind)
        for column, kind in zip(columns, number, strict=True)
    ]
    body = [
        node(
            "tr",
            node("th", cells[0], scope="row"),
            *(node("td", cell, class_=kind) for cell, kind in zip(cells[1:], number[1:], strict=True)),
            class_=name,
        )
        for name, cells in rows
    ]
    return scrolling(node("table", node("thead", node("tr", *head)), node("tbody", *body)), "table")


def scrolling(child: Element, label: str) -> Element:
    """A frame that scrolls sideways, by keyboard too, where the screen is narrow."""
    return node("div", child, class_="scroll", role="region", tabindex=0, aria_label=label)
