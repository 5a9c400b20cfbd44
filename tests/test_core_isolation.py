"""Threads, forks and sub-interpreters: nothing is corrupted, and the interpreter is let go while the core works."""

import subprocess
import sys
import threading
import time

import pytest

import firstnan
from firstnan import ContractError


def in_threads(work, count=4):
    """Runs the work in threads at once and raises what any of them raised."""
    failures = []
    start = threading.Barrier(count)

    def run():
        start.wait()
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_share_records_and_get_one_answer():
    message = firstnan.StageMessage("0" * 32, "1" * 64, 0, 7, firstnan.RuntimeStage.LOADED)
    expected = message.to_bytes()

    def work():
        for _ in range(2000):
            assert firstnan.StageMessage.from_bytes(expected) == message
            assert firstnan.canonical_record(message) == expected

    in_threads(work)


def test_a_dict_that_other_threads_change_gives_a_snapshot_or_an_error():
    shared = {f"k{i}": [i, {"x": i}] for i in range(40)}
    stop = threading.Event()

    def change():
        number = 0
        while not stop.is_set():
            number += 1
            shared[f"n{number % 50}"] = [number]
            shared.pop(f"n{(number + 25) % 50}", None)

    writers = [threading.Thread(target=change) for _ in range(2)]
    for writer in writers:
        writer.start()

    def work():
        for _ in range(300):
            try:
                out = firstnan.canonical_record(shared)
            except ContractError:
                continue
            assert firstnan.canonicalize(out, profile="record") == out

    try:
        in_threads(work, 3)
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_the_interpreter_runs_while_the_core_works():
    text = b"[" + b",".join([b'{"a":[1,2.5,"\\u00e9"],"b":null}'] * 400_000) + b"]"
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    while not ticks:
        time.sleep(0.001)
    began = time.perf_counter()
    firstnan.canonicalize(text, profile="evidence")
    ended = time.perf_counter()
    done.set()
    ticker.join()
    # Held for the whole call, the interpreter would let the ticker run before and after it only.
    inside = [at for at in ticks if began + (ended - began) / 4 < at < ended - (ended - began) / 4]
    assert inside


FORK = """
import os, firstnan
value = {"a": [1, "x", None]}
expected = firstnan.contract_digest(value)
child = os.fork()
if child == 0:
    os._exit(0 if firstnan.contract_digest(value) == expected else 1)
raise SystemExit(os.waitpid(child, 0)[1])
"""


def test_a_forked_child_gets_the_same_answers():
    # In a process of its own: other tests have loaded jax here, which warns of any fork.
    assert subprocess.run([sys.executable, "-c", FORK], check=False).returncode == 0


SUB_INTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import os, sys
first = sys.argv[1] == "first"
if first:
    import firstnan
program = '''
try:
    import firstnan
except ImportError as error:
    answer = "refused"
else:
    answer = firstnan.contract_digest({"a": 1})
import os
os.write(%d, answer.encode())
'''
import os
reader, writer = os.pipe()
one = interpreters.create()
getattr(interpreters, "run_string", None)(one, program % writer)
interpreters.destroy(one)
os.close(writer)
answer = os.read(reader, 100).decode()
import firstnan
assert answer == "refused", answer
assert firstnan.contract_digest({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
assert firstnan.decode("stage-message", firstnan.StageMessage("0" * 32, "1" * 64, 0, 7, firstnan.RuntimeStage.LOADED).to_bytes())
print("intact", answer)
"""


@pytest.mark.parametrize("order", ["first", "second"])
def test_a_sub_interpreter_is_refused_and_the_first_goes_on(order):
    command = [sys.executable, "-W", "ignore", "-c", SUB_INTERPRETER, order]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("intact")


SMALL_STACK = """
import threading
import firstnan
threading.stack_size(256 * 1024)

def nested(wrap):
    value = 1.5
    for _ in range(256):
        value = wrap(value)
    return value

def run():
    for wrap in (lambda value: [value], lambda value: {"a": value}):
        text = firstnan.canonical_evidence(nested(wrap))
        assert firstnan.canonicalize(text, profile="evidence") == text
    print("deep")

thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def test_the_deepest_value_fits_on_a_small_stack():
    result = subprocess.run([sys.executable, "-c", SMALL_STACK], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "deep\n"), result.stderr
