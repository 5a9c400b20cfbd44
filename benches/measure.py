"""Times two functions against each other in one process, round by round, so that a drift of the machine hits both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ROUNDS = 15
ROUND_SECONDS = 0.04


@dataclass(frozen=True)
class Comparison:
    """Median seconds a call of ours and of the peer; `ratio` is the median over rounds of peer / ours."""

    question: str
    peer: str
    target: float
    ours_s: float
    peer_s: float
    ratio: float

    @property
    def met(self) -> bool:
        return self.ratio >= self.target


def calls_for(function: Callable[[], object]) -> int:
    """How many calls fill a round."""
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        elapsed = time.perf_counter() - start
        if elapsed > ROUND_SECONDS / 4:
            return max(1, int(calls * ROUND_SECONDS / elapsed))
        calls *= 4


def timed(function: Callable[[], object], calls: int) -> float:
    repeat = range(calls)
    start = time.perf_counter()
    for _ in repeat:
        function()
    return (time.perf_counter() - start) / calls


def compare(question: str, peer: str, target: float, ours: Callable[[], object], theirs: Callable[[], object]) -> Comparison:
    """Both in turn for `ROUNDS` rounds, the garbage collector off."""
    our_calls, their_calls = calls_for(ours), calls_for(theirs)
    gc.collect()
    gc.disable()
    try:
        rounds = [(timed(ours, our_calls), timed(theirs, their_calls)) for _ in range(ROUNDS)]
    finally:
        gc.enable()
    return of_rounds(question, peer, target, rounds)


def of_rounds(question: str, peer: str, target: float, rounds: Sequence[tuple[float, float]]) -> Comparison:
    """The medians of rounds of (our seconds, the peer's)."""
    return Comparison(
        question,
        peer,
        target,
        statistics.median(a for a, _ in rounds),
        statistics.median(b for _, b in rounds),
        statistics.median(b / a for a, b in rounds),
    )
