"""Lines of telemetry for the tests of the store: distinct records, some refused, some blank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/v1/stage-telemetry.json").read_text())
STAGES = ("forward", "loss", "backward", "all_reduce", "optimizer_update")


def record(number: int) -> dict[str, Any]:
    """The example of the schema under an identity of its own."""
    example: dict[str, Any] = SCHEMA["examples"][0]
    return example | {"telemetry_id": f"telemetry-{number}", "step_id": number % 100_000}


# Made once, since the test of memory needs nearly two million of them.
TEMPLATE = json.dumps(record(0) | {"telemetry_id": "telemetry-%d", "step_id": -1}).replace("-1,", "%d,").encode() + b"\n"


def line(number: int) -> bytes:
    """The JSON of `record(number)`."""
    return TEMPLATE % (number, number % 100_000)


def lines(first: int, count: int, *, bad_every: int = 0, blank_every: int = 0) -> bytes:
    """Records `first` to `first + count`; now and then a line that is refused, or a blank one."""
    parts = []
    for number in range(first, first + count):
        if bad_every and number % bad_every == 0:
            parts.append(b'{"junk": %d, "text": "\xff"}\n' % number if number % 2 else b"{not json %d\n" % number)
        elif blank_every and number % blank_every == 0:
            parts.append(b"  \n")
        else:
            parts.append(line(number))
    return b"".join(parts)
