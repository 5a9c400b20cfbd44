"""Compare an incident bundle with its manifest, from the disk.

Every file's size and SHA-256 against manifest.json; then the parts against each other: the report is what triage says
of the evidence, the evidence is what the leaves' counts add up to, structure.json names the tensors that are there, and
so on. Whoever can change a file can change the
manifest too: compare the manifest's own digest, which is printed, with one kept elsewhere.
"""

from __future__ import annotations

import argparse
import hashlib
import os

from firstnan.cli.inputs import read_file
from firstnan.cli.output import count, say, say_json
from firstnan.cli.refusal import Misuse

WORDS = {
    "missing": "not there, though every such bundle has it",
    "changed": "not the bytes that the manifest lists",
    "extra": "there, but not listed in the manifest",
    "unreadable": "cannot be read as what its name says",
    "disagrees": "does not agree with the bundle's other parts",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="BUNDLE", help="the folder of an incident bundle")


def run(arguments: argparse.Namespace) -> int:
    from firstnan.jax.bundle import verify_bundle
    from firstnan.jax.manifest import MANIFEST

    if not os.path.isdir(arguments.bundle):
        raise Misuse(f"{arguments.bundle}: no such folder")
    differences = verify_bundle(arguments.bundle)
    path = os.path.join(arguments.bundle, MANIFEST)
    digest = hashlib.sha256(read_file(path)).hexdigest() if os.path.isfile(path) else None
    if arguments.json:
        found = [{"file": difference.file, "what": difference.what} for difference in differences]
        say_json({"verified": not differences, "manifest_sha256": digest, "differences": found})
        return 1 if differences else 0
    for difference in differences:
        say(f"{difference.file}: {WORDS.get(difference.what, difference.what)}")
    if differences:
        say(f"{count(len(differences))} difference{'' if len(differences) == 1 else 's'}")
        return 1
    say(f"verified: {count(len(os.listdir(arguments.bundle)) - 1)} files are as the manifest lists them")
    say(f"SHA-256 of the manifest: {digest}")
    return 0
