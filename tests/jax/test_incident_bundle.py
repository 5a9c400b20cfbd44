"""The folder on the disk: whole or not there, and every change to it named."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from steps import SCENARIOS, initial, make_step

from firstnan import ContractError, decode
from firstnan.jax import Difference, Incident, count_stages, read_bundle, run, verify_bundle, write_incident_bundle
from firstnan.jax.history import StepSummary
from firstnan.jax.manifest import json_bytes, verify_folder, write_folder

FILES = {
    "batch.safetensors",
    "contract.json",
    "counts.json",
    "environment.json",
    "evidence.json",
    "excluded.json",
    "history.json",
    "incident.json",
    "observations.json",
    "report.json",
    "state.safetensors",
    "structure.json",
}


@pytest.fixture(scope="module")
def original(contract, tmp_path_factory):
    scenario = SCENARIOS["norm_at_zero"]()
    folder = tmp_path_factory.mktemp("original")
    return run(make_step(scenario), initial(scenario), scenario.batches, contract=contract, bundle_dir=folder)


@pytest.fixture
def held(original, tmp_path):
    """A held run, with a copy of its bundle that a test may damage."""
    return replace(original, bundle=shutil.copytree(original.bundle, tmp_path / "out" / "incident"))


def reseal(folder):
    """Writes a manifest that fits what is in the folder, as a forger would."""
    import hashlib

    files = {}
    for path in sorted(folder.iterdir()):
        if path.name != "manifest.json":
            files[path.name] = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size}
    (folder / "manifest.json").write_bytes(json_bytes({"format": "firstnan-bundle-v1", "files": files}))


def test_a_bundle_holds_the_whole_incident(held):
    assert {path.name for path in held.bundle.iterdir()} == FILES | {"manifest.json"}
    assert verify_bundle(held.bundle) == ()
    bundle = read_bundle(held.bundle)
    assert (bundle.contract, bundle.evidence, bundle.report) == (held.contract, held.evidence, held.report)
    assert (bundle.counts, bundle.history) == (held.counts, held.history)
    assert bundle.incident.step_id == bundle.incident.state_step_id == held.bad_step
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), bundle.state(), held.state))


def test_the_records_are_canonical_bytes_that_anyone_can_decode(held):
    for name, kind in {
        "contract": "training-incident-contract",
        "evidence": "training-run-evidence",
        "report": "incident-report",
    }.items():
        data = (held.bundle / f"{name}.json").read_bytes()
        assert decode(kind, data) == getattr(held, name)
        assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode()


def test_a_replay_from_the_bundle_gives_the_evidence_again(held):
    from firstnan.jax import capture

    scenario = SCENARIOS["norm_at_zero"]()
    bundle = read_bundle(held.bundle)
    _, counts, _ = make_step(scenario)(bundle.state(like=initial(scenario)), bundle.batch())
    assert counts.to_host() == bundle.counts
    assert capture(counts, bundle.contract) == bundle.evidence


def test_every_json_file_is_valid_json_without_nan(held):
    def refuse(name):
        raise AssertionError(name)

    for path in held.bundle.glob("*.json"):
        json.loads(path.read_bytes(), parse_constant=refuse)


def test_a_bundle_names_no_path_of_the_machine(contract, tmp_path, python):
    program = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_dump_to=/secret/place --xla_cpu_enable_fast_math=false"
from firstnan.jax.environment import describe_environment
import json
print(json.dumps(describe_environment()))
"""
    told = json.loads(python(program).stdout)
    assert told["xla_flags"] == ["--xla_dump_to=(path)", "--xla_cpu_enable_fast_math=false"]
    assert told["platform"] == "cpu"
    assert told["settings"]["jax_enable_x64"] is False
    text = json.dumps(told)
    for private in ("secret", os.uname().nodename, os.path.expanduser("~"), sys.prefix):
        assert private not in text


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_cut_a_changed_and_a_missing_file_are_named(held, name):
    path = held.bundle / name
    whole = path.read_bytes()
    for content in (whole[:-1], whole + b" ", whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(content)
        assert verify_bundle(held.bundle) == (Difference(name, "changed"),)
        with pytest.raises(ContractError, match=rf"{name} \(changed\)"):
            read_bundle(held.bundle)
    path.unlink()
    assert verify_bundle(held.bundle) == (Difference(name, "missing"),)
    path.symlink_to(os.devnull)
    assert verify_bundle(held.bundle) == (Difference(name, "changed"),)


def test_an_extra_file_is_named(held):
    (held.bundle / "note.txt").write_text("mine")
    (held.bundle / "more").mkdir()
    assert verify_bundle(held.bundle) == (Difference("more", "extra"), Difference("note.txt", "extra"))


def test_a_folder_without_a_manifest_is_no_bundle(held, tmp_path):
    (held.bundle / "manifest.json").unlink()
    assert verify_bundle(held.bundle) == (Difference("manifest.json", "missing"),)
    assert verify_bundle(tmp_path / "nowhere") == (Difference("manifest.json", "missing"),)


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b'{"format": "firstnan-bundle-v1"}',
        b'{"format": "another", "files": {}}',
        b'{"format": "firstnan-bundle-v1", "files": [1]}',
        b'{"format": "firstnan-bundle-v1", "files": {"a": 1}}',
        b'{"format": "firstnan-bundle-v1", "files": {"a": {"sha256": 1, "size": 2}}}',
        b'{"format": "firstnan-bundle-v1", "files": {"a": {"sha256": "0", "size": true}}}',
        b'{"format": "firstnan-bundle-v1", "files": {"../x": {"sha256": "0", "size": 0}}}',
        b'{"format": "firstnan-bundle-v1", "files": {"/etc/passwd": {"sha256": "0", "size": 0}}}',
        b'{"format": "firstnan-bundle-v1", "files": {"manifest.json": {"sha256": "0", "size": 0}}}',
        b'{"format": "firstnan-bundle-v1", "files": {}, "files": {}}',
        b"[" * 100_000,
    ],
)
def test_a_manifest_of_another_form_is_unreadable(held, manifest):
    (held.bundle / "manifest.json").write_bytes(manifest)
    assert verify_bundle(held.bundle) == (Difference("manifest.json", "unreadable"),)


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("counts.json", '"nan": 2', '"nan": 3', Difference("counts.json", "disagrees")),
        ("counts.json", '"backward"', '"forward"', Difference("counts.json", "unreadable")),
        ("counts.json", '"nan": 2', '"nan": "2"', Difference("counts.json", "unreadable")),
        ("counts.json", '"nan": 2', '"nan": -2', Difference("counts.json", "unreadable")),
        ("counts.json", '"nan": 2', '"nan": NaN', Difference("counts.json", "unreadable")),
        ("counts.json", '"nan": 2', '"nan": 2, "nan": 2', Difference("counts.json", "unreadable")),
        ("report.json", '"backward"', '"loss"', Difference("report.json", "unreadable")),
        ("evidence.json", '"finite_elements":0', '"finite_elements":9', Difference("evidence.json", "unreadable")),
        ("evidence.json", "run-test", "run-fake", Difference("evidence.json", "disagrees")),
        ("contract.json", "run-test", "run-fake", Difference("evidence.json", "disagrees")),
        ("history.json", '"step_id": 0', '"step_id": false', Difference("history.json", "unreadable")),
        ("history.json", '"loss_scale": 1.0', '"loss_scale": "one"', Difference("history.json", "unreadable")),
        ("incident.json", '"every": 1', '"often": 1', Difference("incident.json", "unreadable")),
        ("environment.json", "{", "[{", Difference("environment.json", "unreadable")),
    ],
)
def test_a_change_under_a_new_manifest_is_seen_where_the_files_disagree(held, name, old, new, expected):
    path = held.bundle / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    reseal(held.bundle)
    assert verify_folder(held.bundle) == ()
    assert verify_bundle(held.bundle) == (expected,)
    if expected.what == "unreadable":
        with pytest.raises(ContractError, match=name):
            read_bundle(held.bundle)


def test_another_report_under_a_new_manifest_disagrees(held):
    report = replace(held.report, earliest_nonfinite_stage="loss", action="hold-and-inspect-objective-reduction")
    from firstnan import encode

    (held.bundle / "report.json").write_bytes(encode(report))
    reseal(held.bundle)
    assert verify_bundle(held.bundle) == (Difference("report.json", "disagrees"),)


@pytest.mark.parametrize("name", ["report.json", "contract.json", "evidence.json"])
def test_a_record_taken_away_under_a_new_manifest_is_missed(held, name):
    (held.bundle / name).unlink()
    reseal(held.bundle)
    assert verify_bundle(held.bundle) == (Difference(name, "missing"),)


def test_a_bundle_is_never_overwritten(held):
    bundle = read_bundle(held.bundle)
    with pytest.raises(FileExistsError, match="never overwritten"):
        write_incident_bundle(held.bundle, incident=bundle.incident, counts=bundle.counts, state=0, batch=0)
    assert verify_bundle(held.bundle) == ()


def write(folder, *, state=0, batch=0, history=(), **how):
    counts = count_stages(loss=1.0).to_host()
    incident = Incident(step_id=0, batch_index=0, every=1, state_step_id=0, reproduced=None, refusal="no contract")
    return write_incident_bundle(folder, incident=incident, counts=counts, state=state, batch=batch, history=history, **how)


def test_a_numbered_bundle_takes_the_first_free_name(tmp_path):
    (tmp_path / "in").symlink_to("nowhere")
    (tmp_path / "in-2").mkdir()
    (tmp_path / "in-3").write_text("x")
    for name in ("in-4", "in-5"):
        assert write(tmp_path / "in", numbered=True) == tmp_path / name
        assert verify_bundle(tmp_path / name) == ()
    assert write(tmp_path / "other", numbered=True) == tmp_path / "other"
    for taken in ("in", "in-2", "in-3", "in-4"):
        with pytest.raises(FileExistsError, match=f"{taken} exists: a bundle is never overwritten"):
            write(tmp_path / taken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "in-2", "in-3", "in-4", "in-5", "other"]


def test_two_writers_of_one_name_both_keep_their_bundle(tmp_path):
    # Both have found the name free: the second rename meets a folder that has come to be there.
    def second(file):
        write_folder(tmp_path / "in", {"a": b"first"}, numbered=True)
        file.write(b"second")

    assert write_folder(tmp_path / "in", {"a": second}, numbered=True) == tmp_path / "in-2"
    assert ((tmp_path / "in/a").read_bytes(), (tmp_path / "in-2/a").read_bytes()) == (b"first", b"second")

    def third(file):
        write_folder(tmp_path / "alone", {"a": b"first"})

    with pytest.raises(FileExistsError, match="alone exists"):
        write_folder(tmp_path / "alone", {"a": third})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "in", "in-2"]


def test_a_run_keeps_its_bundle_beside_a_dangling_link(contract, tmp_path):
    scenario = SCENARIOS["norm_at_zero"]()
    for step in range(len(scenario.batches)):
        (tmp_path / f"incident-step-{step}").symlink_to("nowhere")
    result = run(make_step(scenario), initial(scenario), scenario.batches, contract=contract, bundle_dir=tmp_path)
    assert result.bundle == tmp_path / f"incident-step-{result.bad_step}-2"
    assert verify_bundle(result.bundle) == ()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "link", "link is not a folder, so no bundle fits in it"),
        (lambda folder: folder / "file", "file is not a folder, so no bundle fits in it"),
        (lambda folder: folder / "file/inner", "Not a directory"),
    ],
)
def test_a_place_that_can_hold_no_bundle_is_named_and_the_run_goes_on(make, words, contract, tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").write_text("x")
    scenario = SCENARIOS["norm_at_zero"]()
    with pytest.warns(UserWarning, match=f"no incident-step-.* could be written: .*{words}"):
        result = run(make_step(scenario), initial(scenario), scenario.batches, contract=contract, bundle_dir=make(tmp_path))
    assert result.held
    assert result.bundle is None


def test_a_state_of_any_integer_is_written_and_read(tmp_path):
    state = {"seed": 10**5000, "far": -(2**64)}
    folder = write(tmp_path / "in", state=state, batch=[1 << (1 << 21)])
    assert verify_bundle(folder) == ()
    assert read_bundle(folder).state() == state
    with pytest.raises(ContractError, match=r"leaf '0' is not in the bundle \(an int of more than 1048576 bits"):
        read_bundle(folder).batch()


def test_a_part_that_cannot_be_read_again_is_refused_by_its_file(tmp_path):
    for metrics in ({("a", "tuple"): 0.5}, {1: 0.5, "1": 0.5}):
        summary = StepSummary(0, 0, {"loss": 1.0}, {"loss": 0}, metrics)
        with pytest.raises(ContractError, match=r"^history\.json: "):
            write(tmp_path / "in", history=[summary])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_nothing(held, tmp_path):
    bundle = read_bundle(held.bundle)
    gone = jnp.ones(3)
    gone.delete()
    with pytest.raises(ContractError, match="was donated"):
        write_incident_bundle(tmp_path / "new", incident=bundle.incident, counts=bundle.counts, state=gone, batch=0)

    def fill(file):
        file.write(b"begun")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_folder(tmp_path / "new", {"a": b"a", "b": fill})
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_a_full_disk_leaves_nothing(tmp_path):
    # RLIMIT_FSIZE makes the kernel refuse the bytes, as a full disk does.
    program = """
import resource, signal, sys
from pathlib import Path
from firstnan.jax.manifest import write_folder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_folder(Path(sys.argv[1]) / "bundle", {"small": b"s", "large": bytes(5000)})
except OSError as error:
    print(error.errno)
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 27
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys
from pathlib import Path
from firstnan.jax.manifest import write_folder

for number in range(10**6):
    write_folder(Path(sys.argv[1]) / f"bundle-{number}", {f"file-{n}": bytes(300_000) for n in range(5)})
    print(number, flush=True)
"""

INCIDENT_WRITER = """
import sys
import jax.numpy as jnp
from firstnan.jax import Incident, count_stages, write_incident_bundle

state = {str(n): jnp.ones(200_000) for n in range(10)}
counts = count_stages(optimizer=state).to_host()
for number in range(10**6):
    incident = Incident(step_id=number, batch_index=0, every=1, state_step_id=number, reproduced=None)
    write_incident_bundle(f"{sys.argv[1]}/bundle-{number}", incident=incident, counts=counts, state=state, batch=number)
    print(number, flush=True)
"""


@pytest.mark.parametrize("program", [WRITER, INCIDENT_WRITER], ids=["folder", "incident"])
def test_a_writer_killed_at_any_moment_leaves_whole_bundles_only(program, tmp_path):
    for attempt in range(6 if program is WRITER else 2):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        writer = subprocess.Popen(
            [sys.executable, "-c", program, folder], stdout=subprocess.PIPE, env=os.environ | {"JAX_PLATFORMS": "cpu"}
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"0\n"
        # Wait until a bundle is half there, then kill at a moment that differs between attempts.
        while not any(path.name.endswith(".partial") for path in folder.iterdir()):
            pass
        time.sleep(0.003 * attempt)
        writer.send_signal(signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
        bundles = [path for path in folder.iterdir() if not path.name.startswith(".")]
        assert bundles
        for bundle in bundles:
            assert verify_folder(bundle) == ()
        shutil.rmtree(folder)


def test_a_bundle_is_read_and_verified_without_jax(held, python):
    program = """
import sys
from pathlib import Path

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "numpy", "ml_dtypes"):
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
from firstnan.jax import read_bundle, verify_bundle
assert verify_bundle(sys.argv[1]) == ()
bundle = read_bundle(sys.argv[1])
print(bundle.report.earliest_nonfinite_stage, bundle.counts.total("backward").nan)
"""
    assert python(program, str(held.bundle)).stdout.split() == ["backward", "2"]


SHARED = """
import sys, json
import jax
jax.distributed.initialize(sys.argv[2], num_processes=2, process_id=int(sys.argv[1]))
import jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from firstnan.jax import Incident, count_stages, read_bundle, write_incident_bundle
from firstnan import ContractError

sharding = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d"))
mine = jax.device_put(jnp.ones((1, 3)), jax.local_devices()[0])
whole = jax.device_put(jnp.arange(4.0), NamedSharding(sharding.mesh, P()))
assert not whole.is_fully_addressable
keys = jax.jit(lambda: jax.random.key(7), out_shardings=whole.sharding)()
state = {"whole": whole, "w": jax.make_array_from_single_device_arrays((2, 3), sharding, [mine]), "n": 3, "k": keys}
incident = Incident(step_id=0, batch_index=0, every=1, state_step_id=0, reproduced=None)
folder = write_incident_bundle(sys.argv[3] + sys.argv[1], incident=incident, counts=count_stages(loss=1.0).to_host(),
                               state=state, batch=mine)
try:
    read_bundle(folder).state()
except ContractError as error:
    print(error)
back = read_bundle(folder).state(like=state)
assert np.array_equal(back["whole"].addressable_data(0), np.arange(4.0)) and back["whole"].sharding == whole.sharding
assert back["k"] is keys
print(back["w"] is state["w"], read_bundle(folder).batch().shape)
"""


def test_what_processes_hold_whole_is_saved_and_what_others_hold_part_of_is_marked_absent(tmp_path):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SHARED, str(rank), address, str(tmp_path / "rank-")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""},
        )
        for rank in range(2)
    ]
    for process in processes:
        out, errors = process.communicate()
        assert process.returncode == 0, errors
        assert "leaf 'w' is not in the bundle (other processes hold part of it, so take it from a checkpoint" in out
        assert "True (1, 3)" in out


@pytest.mark.parametrize("name", ["state.safetensors", "structure.json"])
def test_a_tree_that_changed_after_the_bundle_was_read_is_refused(held, name):
    bundle = read_bundle(held.bundle)
    data = (held.bundle / name).read_bytes()
    changed = bytearray(data)
    # Of the same form: a bit of a parameter, or another kind of type.
    if name.endswith("json"):
        changed = bytearray(data.replace(b'"weak_type": false', b'"weak_type": true ', 1))
    else:
        changed[-1] ^= 1
    (held.bundle / name).write_bytes(changed)
    reseal(held.bundle)
    with pytest.raises(ContractError, match=f"{name}: it is not what manifest.json lists"):
        bundle.state()
    (held.bundle / name).write_bytes(data)
    assert jax.tree.leaves(bundle.state())
    (held.bundle / name).unlink()
    with pytest.raises(ContractError, match=f"{name}: is not there"):
        bundle.state()
