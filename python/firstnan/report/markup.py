"""HTML and SVG as a tree: what is put in as text stays text, since the serialiser escapes all of it."""

from __future__ import annotations

from xml.etree.ElementTree import Element, tostring

from firstnan.printable import printable

Child = Element | str | None


def node(tag: str, *children: Child, **attributes: str | float) -> Element:
    """An element. Of an attribute's name a trailing `_` is dropped and any other becomes `-`; None children are too."""
    names = {name.rstrip("_").replace("_", "-"): printable(str(value)) for name, value in attributes.items()}
    element = Element(tag, names)
    for child in children:
        if isinstance(child, Element):
            element.append(child)
        elif child is not None and len(element):
            element[-1].tail = (element[-1].tail or "") + printable(child)
        elif child is not None:
            element.text = (element.text or "") + printable(child)
    return element


def stylesheet(css: str) -> Element:
    """A style element. Its text is not escaped, so it must be ours."""
    element = Element("style")
    element.text = css
    return element


def html_text(root: Element) -> str:
    """The document's text, its doctype first."""
    return "<!doctype html>\n" + tostring(root, encoding="unicode", method="html") + "\n"
