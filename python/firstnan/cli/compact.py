"""Merge the small segments of a store, and drop records that came twice.

A record that came by several files (the same record of the same sender) is kept once. Files that were replaced are deleted
when no reader needs them, at once or by a later run. Readers and writers may be at work meanwhile.
"""

from __future__ import annotations

import argparse
import dataclasses

from firstnan.cli.output import count, say, say_json, waiting
from firstnan.cli.stores import extra_needed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the folder of the store")


def run(arguments: argparse.Namespace) -> int:
    with extra_needed():
        from firstnan.ingest import Store, compact

        with Store.open(arguments.store) as store, waiting(f"compacting {arguments.store}"):
            done = compact(store)
            counts = store.counts()
    if arguments.json:
        say_json({**dataclasses.asdict(done), "counts": dataclasses.asdict(counts)})
        return 0
    say(f"{count(done.before)} segments are {count(done.after)} now; {count(done.duplicates)} records came twice")
    swept = done.swept
    if swept.busy:
        say("no file was deleted, since writers were at work all the time; a later run does it")
    else:
        say(f"{count(swept.replaced + swept.leftovers)} files deleted, {count(swept.kept)} kept for readers")
    return 0
