"""Text of a stranger's file, made safe to show: on a terminal, in a log, on a page."""


def printable(text: str) -> str:
    """The text with each character that is not printable (`str.isprintable`) as a backslash escape.

    No name in a file may steer a terminal, turn the direction of a line, or break an encoding (a lone surrogate).
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
