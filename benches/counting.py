"""`count_finite` against numpy on 256 MiB, in turns: reading the same memory, and the same answer by numpy's own means.

A ratio is peer / ours, the median of rounds; of seconds of the processor where one thread of ours works, which a busy machine
lengthens less, and of the clock where more do: as called, on as many as there are cores, up to 8. What is read is larger than
most caches, so that memory is measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np

import firstnan
from measure import Comparison, of_rounds

MIB = 1 << 20
ROUNDS = 9


def comparisons() -> Iterator[Comparison]:
    """Each target; the comparison of threads only where there are two cores to run on."""
    whole = np.random.default_rng(0).standard_normal(64 * MIB, dtype=np.float32)
    words = whole.view(np.uint64)
    yield _compare("count_finite float32 256 MiB", "numpy.sum uint64", 0.9, lambda: _one(whole), lambda: words.sum())
    called, theirs = lambda: firstnan.count_finite(whole), lambda: _numpy(whole)
    yield _compare("count_finite as called, 256 MiB", "numpy isfinite", 10, called, theirs, clock=time.perf_counter)
    half = whole[: 32 * MIB].astype(ml_dtypes.bfloat16)
    yield _compare("count_finite bfloat16 64 MiB", "numpy isfinite", 30, lambda: _one(half), lambda: _numpy(half), 3)
    bad = np.full(16 * MIB, np.nan, np.float32)
    good = whole[: 16 * MIB]
    yield _compare("count_finite all NaN 64 MiB", "all finite", 0.5, lambda: _one(bad), lambda: _one(good))
    if len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [None]) > 1:
        both = lambda: firstnan.count_finite(whole, threads=2)  # noqa: E731
        yield _compare("count_finite on two threads", "on one", 1, both, lambda: _one(whole), clock=time.perf_counter)


def _one(array: np.ndarray) -> firstnan.FiniteCounts:
    return firstnan.count_finite(array, threads=1)


def _numpy(array: np.ndarray) -> tuple[int, float]:
    """How many are not finite, and the largest magnitude of those that are."""
    finite = np.isfinite(array)
    return array.size - np.count_nonzero(finite), float(np.abs(array).max(initial=0, where=finite))


def _seconds(function: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    function()
    return clock() - start


def _compare(
    question: str,
    peer: str,
    target: float,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.thread_time,
) -> Comparison:
    """Both in turn, after one call each that touches the memory."""
    ours(), theirs()
    pairs = [(_seconds(ours, clock), _seconds(theirs, clock)) for _ in range(rounds)]
    return of_rounds(question, peer, target, pairs)


def print_comparisons() -> list[Comparison]:
    """Each as a line, as it comes."""
    results = []
    for result in comparisons():
        results.append(result)
        print(f"{result.question:32} {result.peer:16} {result.ours_s * 1e3:9.2f} {result.peer_s * 1e3:9.2f} "
              f"{result.ratio:7.2f} {result.target:7.1f}{'' if result.met else '  MISSED'}", flush=True)
    return results


if __name__ == "__main__":
    print_comparisons()
