"""Bundles whose manifest was written anew over a change: what the parts say of each other gives it away."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import jax.numpy as jnp
import pytest
from steps import SCENARIOS, initial, make_step

from firstnan import ContractError, StageTelemetry, TrainingRunEvidence, encode, triage_training_incident
from firstnan.jax import Difference, Incident, StepRefused, count_stages, read_bundle, run, verify_bundle, write_incident_bundle
from firstnan.jax.manifest import json_bytes, verify_folder


@pytest.fixture(scope="module")
def original(contract, tmp_path_factory):
    scenario = SCENARIOS["norm_at_zero"]()
    folder = tmp_path_factory.mktemp("original")
    return run(make_step(scenario), initial(scenario), scenario.batches, contract=contract, bundle_dir=folder, every=4).bundle


@pytest.fixture(scope="module")
def refused(contract, tmp_path_factory):
    """The bundle of a step that triage refused: its magnitudes are beyond the contract's bound."""
    scenario = SCENARIOS["norm_at_zero"]()
    bound = replace(contract, minimum_numeric_resolution=1e-9, maximum_absolute_finite=1e-6)
    with pytest.raises(StepRefused) as caught:
        run(
            make_step(scenario),
            initial(scenario),
            scenario.batches,
            contract=bound,
            bundle_dir=tmp_path_factory.mktemp("refused"),
        )
    return caught.value.result.bundle


@pytest.fixture
def bundle(original, tmp_path):
    return shutil.copytree(original, tmp_path / "incident")


@pytest.fixture
def refused_bundle(refused, tmp_path):
    return shutil.copytree(refused, tmp_path / "refused")


def reseal(folder: Path) -> None:
    files = {
        path.name: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size}
        for path in sorted(folder.iterdir())
        if path.name != "manifest.json"
    }
    (folder / "manifest.json").write_bytes(json_bytes({"format": "firstnan-bundle-v1", "files": files}))
    assert verify_folder(folder) == ()


def change(folder: Path, name: str, how: Callable[[dict], object]) -> tuple[Difference, ...]:
    value = json.loads((folder / name).read_bytes())
    changed = how(value)
    (folder / name).write_bytes(json_bytes(value if changed is None else changed))
    reseal(folder)
    return verify_bundle(folder)


def remove(folder: Path, *names: str) -> tuple[Difference, ...]:
    for name in names:
        (folder / name).unlink()
    reseal(folder)
    return verify_bundle(folder)


ALWAYS = ["batch.safetensors", "counts.json", "environment.json", "history.json", "incident.json", "state.safetensors"]


@pytest.mark.parametrize("name", [*ALWAYS, "structure.json"])
def test_a_file_that_every_bundle_has_is_missed(bundle, name):
    assert remove(bundle, name) == (Difference(name, "missing"),)
    if name in ("counts.json", "environment.json", "history.json", "incident.json"):
        with pytest.raises(ContractError, match=f"{name}: is not there"):
            read_bundle(bundle)
    else:
        tree = read_bundle(bundle).batch if name == "batch.safetensors" else read_bundle(bundle).state
        with pytest.raises(ContractError, match=f"{name}: is not there"):
            tree()


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"step_id": 99, "state_step_id": 99}, "disagrees"),
        ({"state_step_id": 99}, "disagrees"),
        ({"every": 0}, "disagrees"),
        ({"refusal": "made up"}, "disagrees"),
        ({"reproduced": "yes"}, "unreadable"),
        ({"more": 1}, "unreadable"),
    ],
)
def test_an_incident_that_does_not_fit_its_records_is_found(bundle, members, what):
    expected = Difference("report.json" if "refusal" in members else "incident.json", what)
    assert change(bundle, "incident.json", lambda incident: incident.update(members)) == (expected,)


@pytest.mark.parametrize(
    ("behind", "every", "reproduced", "agrees"),
    [
        (0, 4, True, True),
        (0, 4, None, True),
        (3, 4, False, True),
        (3, 4, True, False),
        (4, 4, False, False),
        (1, 1, False, False),
        (-1, 4, True, False),
    ],
)
def test_a_state_is_of_a_step_that_a_replay_can_end_at(behind, every, reproduced, agrees, tmp_path):
    incident = Incident(7, 7, every, 7 - behind, reproduced, refusal="its contract could not be made")
    counts = count_stages(loss=jnp.ones(1)).to_host()
    folder = write_incident_bundle(tmp_path / "bundle", incident=incident, counts=counts, state=0, batch=0)
    assert verify_bundle(folder) == (() if agrees else (Difference("incident.json", "disagrees"),))


@pytest.mark.parametrize("gone", [["report"], ["report", "evidence"], ["evidence"], ["contract"], ["contract", "report"]])
def test_records_taken_away_behind_a_made_up_refusal_are_missed(bundle, gone):
    value = json.loads((bundle / "incident.json").read_bytes())
    (bundle / "incident.json").write_bytes(json_bytes(value | {"refusal": "made up"}))
    assert remove(bundle, *(f"{name}.json" for name in gone)) != ()


@pytest.mark.parametrize("gone", ["contract", "evidence"])
def test_records_taken_from_a_refused_step_are_missed(refused_bundle, gone):
    assert verify_bundle(refused_bundle) == ()
    assert read_bundle(refused_bundle).evidence is not None
    assert remove(refused_bundle, f"{gone}.json") == (Difference(f"{gone}.json", "missing"),)


def test_a_refusal_taken_away_is_missed(refused_bundle):
    assert change(refused_bundle, "incident.json", lambda incident: incident.update(refusal=None)) == (
        Difference("report.json", "missing"),
    )


@pytest.mark.parametrize("value", [{}, [1], [], 1, None, {"state": {}}, {"state": {}, "batch": {}}, {"state": [], "batch": []}])
def test_a_structure_of_another_form_is_unreadable(bundle, value):
    assert change(bundle, "structure.json", lambda _: [] if value is None else value) == (
        Difference("structure.json", "unreadable"),
    )
    for tree in (read_bundle(bundle).state, read_bundle(bundle).batch):
        with pytest.raises(ContractError, match=r"^structure\.json: "):
            tree()


@pytest.mark.parametrize(
    ("how", "what", "words"),
    [
        (lambda s: s["state"]["leaves"][0].update(dtype="int32"), "disagrees", "/state/leaves/0/dtype and /shape"),
        (lambda s: s["state"]["leaves"][0].update(shape=[1]), "disagrees", "/state/leaves/0/dtype and /shape"),
        (lambda s: s["state"]["leaves"][0].update(tensor="gone"), "disagrees", "/state/leaves/0/tensor"),
        (lambda s: s["state"]["leaves"][0].pop("kind") and None, "unreadable", "/state/leaves/0/kind"),
        (lambda s: s["state"].update(leaves=3), "unreadable", "/state/leaves must be a list"),
        (lambda s: s["state"]["nodes"].pop() and None, "unreadable", "/state/nodes"),
        (lambda s: s.update(state=s["batch"]), "disagrees", "/state/leaves"),
    ],
)
def test_a_structure_that_does_not_fit_its_tensors_is_found(bundle, how, what, words):
    assert change(bundle, "structure.json", how) == (Difference("structure.json", what),)
    with pytest.raises(ContractError, match=rf"^structure\.json: {words}"):
        read_bundle(bundle).state()


def test_tensors_of_another_tree_are_found(bundle):
    (bundle / "state.safetensors").write_bytes((bundle / "batch.safetensors").read_bytes())
    reseal(bundle)
    assert verify_bundle(bundle) == (Difference("structure.json", "disagrees"),)
    (bundle / "state.safetensors").write_bytes(b"\0" * 8)
    reseal(bundle)
    assert verify_bundle(bundle) == (Difference("state.safetensors", "unreadable"),)


def rename(counts):
    counts["leaves"][0]["path"] += "x"


def move(counts):
    backward = [leaf for leaf in counts["leaves"] if leaf["stage"] == "backward"]
    backward[0].update(nan=0)
    backward[-1].update(nan=backward[-1]["checked"] + 1)


def unmeasured(counts):
    counts["leaves"].append(counts["leaves"][0] | {"stage": "optimizer!"})


@pytest.mark.parametrize("how", [rename, move, unmeasured])
def test_counts_that_the_evidence_was_not_made_of_are_found(bundle, how):
    assert change(bundle, "counts.json", how) == (Difference("counts.json", "disagrees"),)


def test_evidence_with_an_identifier_of_its_own_is_found(bundle):
    told = read_bundle(bundle)
    stages = [
        StageTelemetry.capture(
            **{
                name: getattr(stage, name)
                for name in (field.name for field in fields(stage))
                if name not in ("tensor_set_id", "telemetry_content_id")
            },
            tensor_set_id=f"tensors-of-another-model-{stage.stage}",
        )
        for stage in told.evidence.stages
    ]
    evidence = TrainingRunEvidence.capture(evidence_id=told.evidence.evidence_id, contract=told.contract, stages=stages)
    (bundle / "evidence.json").write_bytes(encode(evidence))
    (bundle / "report.json").write_bytes(encode(triage_training_incident(told.contract, evidence)))
    reseal(bundle)
    assert verify_bundle(bundle) == (Difference("counts.json", "disagrees"),)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        (lambda h: h[-1].update(step_id=99), "disagrees"),
        (lambda h: h[-1].update(batch_index=99), "disagrees"),
        (lambda h: h[-1]["nonfinite"].update(backward=0), "disagrees"),
        (lambda h: h[-1]["maximum"].update(forward=1.25), "disagrees"),
        (lambda h: h.pop() and None, "disagrees"),
        (lambda h: {"steps": h}, "unreadable"),
    ],
)
def test_a_history_that_does_not_end_with_the_incident_is_found(bundle, how, what):
    assert change(bundle, "history.json", how) == (Difference("history.json", what),)


@pytest.mark.parametrize("value", [{}, {"jax": 1}, {"python": "3"}])
def test_an_environment_without_its_versions_is_unreadable(bundle, value):
    assert change(bundle, "environment.json", lambda _: value) == (Difference("environment.json", "unreadable"),)


def test_what_is_no_bundle_is_said_with_what_was_looked_for_and_where(bundle, tmp_path):
    with pytest.raises(ContractError, match=r"no bundle at .*/nosuch: there is no such folder"):
        read_bundle(tmp_path / "nosuch")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ContractError, match=r"no bundle at .*/file: it is no folder"):
        read_bundle(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ContractError, match=r"no bundle at .*/empty: the folder has no manifest\.json"):
        read_bundle(tmp_path / "empty")
    (bundle / "manifest.json").write_text("{}")
    with pytest.raises(ContractError, match=r"its manifest\.json is not one of format firstnan-bundle-v1"):
        read_bundle(bundle)
    for take in (read_bundle, verify_bundle):
        with pytest.raises(ContractError, match="must not hold a NUL"):
            take("a\0b")


def test_names_on_the_disk_steer_no_terminal(bundle):
    hostile = bundle.rename(bundle.with_name("in\x1b[2Jcident\u202e"))
    for number in range(12):
        (hostile / f"\x1b]0;{number}\x07").write_text("")
    with pytest.raises(ContractError, match=r"extra.*, and 2 more") as caught:
        read_bundle(hostile)
    assert str(caught.value).isprintable()
    with pytest.raises(ContractError) as caught:
        read_bundle(hostile / "\x1b[0m")
    assert str(caught.value).isprintable()


def test_a_pipe_or_a_folder_in_a_files_place_is_found_without_waiting(bundle):
    whole = {path.name: path.read_bytes() for path in bundle.iterdir()}
    for name, data in whole.items():
        for put in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path), lambda path: os.symlink("nowhere", path)):
            (bundle / name).unlink()
            put(bundle / name)
            (found,) = verify_bundle(bundle)
            assert found == Difference(name, "missing" if name == "manifest.json" else "changed")
            with pytest.raises(ContractError):
                read_bundle(bundle)
            (bundle / name).rmdir() if (bundle / name).is_dir() else (bundle / name).unlink()
            (bundle / name).write_bytes(data)
    assert verify_bundle(bundle) == ()


def test_a_file_that_becomes_a_pipe_after_reading_is_refused_without_waiting(bundle):
    told = read_bundle(bundle)
    for name in ("structure.json", "state.safetensors"):
        data = (bundle / name).read_bytes()
        (bundle / name).unlink()
        os.mkfifo(bundle / name)
        with pytest.raises(ContractError, match=f"{name}: it is not a regular file"):
            told.state()
        (bundle / name).unlink()
        (bundle / name).write_bytes(data)
