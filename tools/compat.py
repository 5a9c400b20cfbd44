"""Says whether a change to the schemas breaks readers or writers.

    python tools/compat.py OLD NEW [--json]

OLD and NEW are bundles (schemas/bundle.json) or folders of schemas (schemas/v1). Of each change it says whom it breaks:
readers (an old reader refuses a record that a new writer may write), writers (a new reader refuses a record that an old
writer may write), identities (the same record gets other canonical bytes), callers (code that names fields by position,
relies on a default, or names the class). Where that cannot be told, as of two patterns, both readers and writers break.

Exit codes: 0 compatible; 1 something breaks; 2 the arguments are no schemas.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from schema_difference import CALLERS, IDENTITIES, READERS, WRITERS, Finding, compare
from schema_shape import UnreadableSchemas, read


def summary(findings: list[Finding]) -> str:
    changes = f"{len(findings)} change{'' if len(findings) == 1 else 's'}"
    broken = [whom for whom in (READERS, WRITERS, IDENTITIES, CALLERS) if any(whom in each.breaks for each in findings)]
    return f"breaks {', '.join(broken)}: {changes}" if broken else f"compatible: {changes}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="the bundle or folder of schemas that is in use")
    parser.add_argument("new", type=Path, help="the bundle or folder that is to follow it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    try:
        findings = compare(read(arguments.old), read(arguments.new))
    except UnreadableSchemas as error:
        print(f"compat: {error}", file=sys.stderr)
        return 2
    breaks = any(each.breaks for each in findings)
    if arguments.json:
        print(json.dumps({"compatible": not breaks, "changes": [asdict(each) for each in findings]}, indent=2))
        return int(breaks)
    for each in findings:
        whom = f"breaks {' and '.join(each.breaks)}: " if each.breaks else ""
        print(f"{each.kind}{' ' + each.path if each.path else ''}: {each.change}: {whom}{each.why}")
    print(summary(findings))
    return int(breaks)


if __name__ == "__main__":
    sys.exit(main())
