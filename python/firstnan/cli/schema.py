"""Print the schemas that this package was built from.

`list` names them, `show NAME` prints one (also `common`, the shared definitions, and `meta`, the meta-schema of our
keywords), `bundle` prints all in one file.
"""

from __future__ import annotations

import argparse
import json
import sys

from firstnan import schema_files
from firstnan.cli.output import say_json, say_table
from firstnan.cli.refusal import Misuse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["list", "show", "bundle"])
    parser.add_argument("name", nargs="?", metavar="NAME", help="a name that `list` gives, for `show`")


def run(arguments: argparse.Namespace) -> int:
    if (arguments.what == "show") != (arguments.name is not None):
        raise Misuse("`schema show` takes one NAME; `schema list` and `schema bundle` take none")
    if arguments.what == "list":
        kinds = json.loads(schema_files.bundle_text())["x-firstnan-kinds"]
        profiles = {kind: entry["profile"] for kind, entry in kinds.items()}
        names = [*schema_files.kinds(), schema_files.COMMON, schema_files.META]
        schemas = [described(name, profiles) for name in names]
        if arguments.json:
            say_json({"schemas": schemas})
        else:
            say_table(["name", "profile", "title"], [[s["name"], s["profile"], s["title"]] for s in schemas])
        return 0
    if arguments.what == "bundle":
        sys.stdout.write(schema_files.bundle_text())
        return 0
    try:
        sys.stdout.write(schema_files.schema_text(arguments.name))
    except KeyError:
        raise Misuse(f"no such schema: {arguments.name}; `firstnan schema list` names them") from None
    return 0


def described(name: str, profiles: dict[str, str]) -> dict[str, str]:
    """What `list` says of a schema. The profile of what is no record is `-`."""
    schema = json.loads(schema_files.schema_text(name))
    return {
        "name": name,
        "id": schema["$id"],
        "title": schema["title"],
        "profile": profiles.get(name, "-"),
        "description": schema.get("description", ""),
    }
