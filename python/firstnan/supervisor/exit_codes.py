"""Exit codes of children, in a process that has asked the kernel to throw them away."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import threading
from collections.abc import Iterator

_SIG_DFL, _SIG_IGN = 0, 1  # <signal.h>

_lock = threading.Lock()
_holders = 0
_changed = False


@contextlib.contextmanager
def exit_codes_kept() -> Iterator[None]:
    """While this is held, SIGCHLD is not ignored: where it is, Linux reaps children itself (waitpid(2), NOTES).

    A process may inherit that from its parent without knowing. The disposition belongs to the whole process, so the
    first of several threads changes it and the last restores it.
    """
    global _holders, _changed
    with _lock:
        if _holders == 0:
            _changed = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
            if _changed:
                _set_disposition(_SIG_DFL)
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            # Whoever set another in the meantime has the last word.
            if _holders == 0 and _changed and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
                _set_disposition(_SIG_IGN)


def exit_code(pid: int) -> int | None:
    """The exit code of a child, or the negative number of its signal, the child staying unreaped; None while it runs.

    Raises:
        ChildProcessError: another part of this process has reaped it.
    """
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        words = "another part of this process has reaped the worker, so its exit code is unknown"
        raise ChildProcessError(errno.ECHILD, words) from None
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _set_disposition(disposition: int) -> None:
    """signal(2) itself: Python's signal.signal works in the main thread only."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    libc.signal(signal.SIGCHLD, disposition)
