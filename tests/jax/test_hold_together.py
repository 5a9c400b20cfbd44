"""Several processes hold at the same step, each with its local record written before anything is exchanged."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from firstnan.jax import read_bundle, verify_bundle

PROGRAM = Path(__file__).with_name("hold_together.py")
STEPS = 12


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def train(processes, folder, mode, every, fault_step):
    arguments = [str(processes), str(free_port()), str(folder), mode, str(every), str(fault_step)]
    started = [
        subprocess.Popen([sys.executable, str(PROGRAM), str(rank), *arguments], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env=os.environ | {"JAX_PLATFORMS": "cpu"})
        for rank in range(processes)
    ]
    told = []
    for process in started:
        try:
            out, err = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            for other in started:
                other.kill()
            raise
        assert process.returncode == 0, err
        told.append(json.loads(out.splitlines()[-1]))
    return told


@pytest.mark.parametrize(("processes", "mode", "every"), [(2, "alone", 1), (2, "reduced", 5), (4, "alone", 5), (4, "reduced", 1)])
def test_all_hold_at_the_step_that_one_of_them_saw(tmp_path, processes, mode, every):
    told = train(processes, tmp_path, mode, every, fault_step=7)
    for rank, one in enumerate(told):
        assert one["rank"] == rank
        assert (one["held"], one["bad_step"], one["steps"], one["reproduced"]) == (True, 7, 7, True)
        assert one["held_by"] == ([1] if mode == "alone" else list(range(processes)))
        # All leave the same batch out, so all come to the same end.
        assert (one["held_after"], one["steps"] + one["steps_after"]) == (False, STEPS - 1)
        elsewhere = None if mode == "alone" else "optimizer"
        assert one["stage"] == ("backward" if rank == 1 else elsewhere)
        assert verify_bundle(tmp_path / one["bundle"]) == ()
        incident = read_bundle(tmp_path / one["bundle"]).incident
        assert (incident.process, incident.processes, incident.step_id) == (rank, processes, 7)
        record = tmp_path / f"local-step-7-rank-{rank}"
        assert record.is_dir() == (rank in one["held_by"])
    assert len({json.dumps(one["state"]) for one in told}) == 1


def test_nobody_is_held_when_nothing_is_wrong(tmp_path):
    told = train(2, tmp_path, "reduced", 4, fault_step=99)
    assert [(one["held"], one["held_by"], one["steps"]) for one in told] == [(False, [], STEPS)] * 2
    assert not list(tmp_path.iterdir())
