"""A worker of a fleet that dies between what it has written and its receipt."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable


def dying_once(marker: str) -> Callable[[], None]:
    """What is to run as each worker starts. Whoever has written a segment sweeps the store before it says so, and the first
    is killed there.

    Args:
        marker: a path, where a file says that one was killed.
    """

    def hook() -> None:
        from firstnan.ingest import Store, receipts, sweep

        written = receipts.write_shard

        def write_and_die(*arguments):
            result = written(*arguments)
            with Store.open(arguments[0]) as store:
                assert sweep(store, leftover_age_s=0, patience_s=0).busy
            with contextlib.suppress(FileExistsError):
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        receipts.write_shard = write_and_die

    return hook
