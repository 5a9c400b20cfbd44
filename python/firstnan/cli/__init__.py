"""The command line: `firstnan COMMAND …`, or `python -m firstnan COMMAND …`.

Exit codes, the same for each command:

| code | means |
| --- | --- |
| 0 | done; what was looked at is in order |
| 1 | something was refused or differs; a HOLD, where `--exit-code` asks for it |
| 2 | misuse: no such command or kind, a file that cannot be read or written, a bad argument |
| 130 | interrupted (Ctrl-C) |
| 141 | the reader of our output went away |

Results go to standard output, and with `--json` they are exactly one JSON document; what could not be done goes to
standard error. No message repeats a value of the input.
"""

from firstnan.cli.command_line import main as main

__all__ = ["main"]
