"""Lines of a fleet for the tests of bulk triage: contracts and telemetry, many of them wrong in one way."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parents[2] / "schemas/v1"
CONTRACT: dict[str, Any] = json.loads((SCHEMAS / "training-incident-contract.json").read_text())["examples"][0]
STAGES: list[dict[str, Any]] = json.loads((SCHEMAS / "training-run-evidence.json").read_text())["examples"][0]["stages"]
GOOD = {"state": "OBSERVED", "checked_elements": 4096, "finite_elements": 4096, "nonfinite_elements": 0,
        "maximum_absolute_finite": 1.0}  # fmt: skip
NOT_RUN = {"state": "NOT_RUN", "checked_elements": 0, "finite_elements": 0, "nonfinite_elements": 0,
           "maximum_absolute_finite": 0}  # fmt: skip


def contract(run: str, step: int, **other: Any) -> dict[str, Any]:
    return CONTRACT | {"run_id": run, "step_id": step, "batch_id": f"batch-{step}"} | other


def telemetry(of: dict[str, Any], order: int, **other: Any) -> dict[str, Any]:
    """The stage of a contract, finite unless `other` says so."""
    scope = {name: value for name, value in of.items() if name in STAGES[order]}
    return STAGES[order] | scope | GOOD | other


def bad(elements: int) -> dict[str, Any]:
    return {"finite_elements": 4096 - elements, "nonfinite_elements": elements}


def enveloped(record: dict[str, Any], rank: int, world_size: int, attempt: int = 0) -> dict[str, Any]:
    envelope = {"kind": "stage-telemetry", "rank": rank, "world_size": world_size, "attempt": attempt, "sequence": 0,
                "source": f"host-{rank}"}  # fmt: skip
    return {"envelope": envelope, "record": record}


def fleet(seed: int, steps: int, ranks: int) -> list[dict[str, Any]]:
    """The lines of a run of so many steps, in any order. Half of its evidence is good, the rest wrong in one way or two."""
    chance = random.Random(seed)
    lines: list[dict[str, Any]] = []
    for step in range(steps):
        promised = contract(f"run-{chance.randrange(3)}", step, loss_scale=chance.choice([1024, 1024.0, 2**30, 0.5]))
        for _ in range(chance.choice([0, 1, 1, 1, 1, 2])):
            lines.append(promised)
        if chance.random() < 0.1:
            lines.append(promised | {"incident_owner": "team:other"})
        for rank in range(ranks if chance.random() < 0.95 else 0):
            lines += (enveloped(one, rank, ranks, step % 2) for one in evidence(chance, promised))
    chance.shuffle(lines)
    return lines


def evidence(chance: random.Random, promised: dict[str, Any]) -> list[dict[str, Any]]:
    stages = [telemetry(promised, order) for order in range(5)]
    for _ in range(chance.choice([0, 0, 1, 1, 2])):
        place = chance.randrange(len(stages))
        fault = chance.randrange(12)
        stage = stages[place]
        if fault in (0, 1, 2):
            stages[place] = stage | bad(chance.randint(1, 4096))
        elif fault == 3:
            stages[place:] = [stage | bad(7), *(later | NOT_RUN for later in stages[place + 1 :])]
        elif fault == 4:
            stages[place] = stage | NOT_RUN
        elif fault == 5:
            del stages[place]
        elif fault == 6:
            stages.append(stage)
        elif fault == 7:
            stages.append(stage | {"telemetry_id": "another"})
        elif fault == 8:
            name = chance.choice(["model_version", "loss_scale", "batch_id", "precision"])
            stages[place] = stage | {name: 77.5 if name == "loss_scale" else "another"}
        elif fault == 9:
            stages[place] = stage | {"owner": "team:another"}
        elif fault == 10:
            extreme = chance.choice([1e12, 10**12, 10**30, 1e-13, 1_000_000_000, 10**9 + 1])
            stages[place] = stage | {"maximum_absolute_finite": extreme}
        else:
            stages[place] = stage | {"tensor_set_id": stages[0]["tensor_set_id"], "telemetry_id": stages[0]["telemetry_id"]}
        if not stages:
            break
    return stages
