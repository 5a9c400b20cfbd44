"""Checkpoints as Orbax writes them today, in each of its storage forms, and damaged ones."""

import json
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from scan_files import command, expected, peak_growth, told

import firstnan

FORMS = {
    "ocdbt": {"use_ocdbt": True},
    "zarr": {"use_ocdbt": False},
    "zarr3": {"use_ocdbt": True, "use_zarr3": True},
}


def tree():
    """Leaves of several dtypes and shapes; the large one takes several chunks where they are small."""
    key = jax.random.key(0)
    kernel = np.array(jax.random.normal(key, (130, 70)))
    kernel[100, 3] = kernel[99, 69] = np.nan
    return {
        "dense": {"kernel": jnp.asarray(kernel), "bias": jnp.array([1, -jnp.inf, 3], jnp.bfloat16)},
        "layers": [jnp.ones(3, jnp.float16), jnp.full((2, 2), jnp.inf, jnp.float32)],
        "step": np.int32(3),
        "rate": 0.5,
        "small": jnp.array([1, jnp.nan], jnp.float8_e4m3fn),
        "flag": jnp.array(True),
    }


EXPECTED = {
    ".".join(str(getattr(part, "key", getattr(part, "idx", None))) for part in path): np.asarray(leaf)
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree())[0]
}


def save(path, form="ocdbt", **options):
    handler = ocp.PyTreeCheckpointHandler(**FORMS[form])
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree(), **options))
    return path


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk_bytes", [None, 1000])
def test_every_form_of_storage(tmp_path, form, chunk_bytes):
    options = {"save_args": jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=chunk_bytes), tree())} if chunk_bytes else {}
    scanned = firstnan.scan(save(tmp_path / "1000", form, **options))
    assert scanned.not_counted == ()
    assert {tensor.name: told(tensor.counts) for tensor in scanned.tensors} == {n: expected(a) for n, a in EXPECTED.items()}
    assert {tensor.name: tensor.shape for tensor in scanned.tensors} == {name: a.shape for name, a in EXPECTED.items()}
    kernel = next(tensor for tensor in scanned.tensors if tensor.name == "dense.kernel")
    assert kernel.counts.first_nonfinite == 99 * 70 + 69


def test_names_of_any_characters(tmp_path):
    names = ("a/b", "x y", "ü", "dot.ted", "per%cent")
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        given = {name: jnp.array([number, jnp.nan]) for number, name in enumerate(names)}
        checkpointer.save(tmp_path / "1", args=ocp.args.PyTreeSave(given))
    scanned = firstnan.scan(tmp_path / "1")
    assert scanned.not_counted == ()
    assert {tensor.name for tensor in scanned.tensors} == set(names)
    assert scanned.nan == len(names)


def manager(folder, bad, steps=(10, 20, 30)):
    """Steps of a CheckpointManager with an item of arrays and one of JSON; those from `bad` on hold a NaN."""
    with ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=None)) as kept:
        for step in steps:
            state = {"w": jnp.array([1, jnp.nan if step >= bad else 2])}
            arguments = ocp.args.Composite(state=ocp.args.StandardSave(state), meta=ocp.args.JsonSave({"a": 1}))
            kept.save(step, args=arguments)
        kept.wait_until_finished()


def test_the_steps_of_a_manager(tmp_path):
    manager(tmp_path, 20)
    scanned = firstnan.scan(tmp_path / "20")
    assert [(tensor.file, tensor.name, tensor.counts.nan) for tensor in scanned.tensors] == [("state", "w", 1)]
    assert scanned.complete
    assert firstnan.scan(tmp_path / "20/state").nan == 1
    found = firstnan.first_bad(tmp_path)
    assert (found.last_good.step, found.first_bad.step) == (10, 20)


@pytest.mark.parametrize("form", ["zarr"])
def test_a_chunk_that_is_gone_is_no_zeros(tmp_path, form):
    path = save(tmp_path / "1", form)
    (path / "dense.kernel/0.0").unlink()
    scanned = firstnan.scan(path)
    assert len(scanned.tensors) == len(EXPECTED) - 1
    assert [(entry.name, "chunk" in entry.reason) for entry in scanned.not_counted] == [("dense.kernel", True)]


def test_an_array_that_is_gone_is_told(tmp_path):
    path = save(tmp_path / "1", "zarr")
    shutil.rmtree(path / "layers.1")
    scanned = firstnan.scan(path)
    assert [(entry.name, entry.reason) for entry in scanned.not_counted] == [
        ("layers.1", "_METADATA lists it, and no array is stored")
    ]


def test_damaged_metadata_costs_no_array_its_counts(tmp_path):
    path = save(tmp_path / "1")
    for text in ("{", "[]", '{"tree_metadata": 3}', '{"tree_metadata": {"a": {}}}', "[" * 99_999):
        (path / "_METADATA").write_text(text)
        scanned = firstnan.scan(path)
        assert len(scanned.tensors) == len(EXPECTED)
        assert [entry.reason for entry in scanned.not_counted] == ["_METADATA is not as Orbax writes it"]


def test_a_damaged_database_is_told(tmp_path):
    path = save(tmp_path / "1")
    for file in [path / "manifest.ocdbt", *sorted(path.glob("**/d/*"))]:
        whole = file.read_bytes()
        for damaged in (whole[: len(whole) // 2], b"", bytes(byte ^ 255 for byte in whole)):
            file.write_bytes(damaged)
            scanned = firstnan.scan(path)
            for tensor in scanned.tensors:
                assert told(tensor.counts) == expected(EXPECTED[tensor.name])
            assert len(scanned.tensors) == len(EXPECTED) or not scanned.complete
        file.write_bytes(whole)
    assert firstnan.scan(path).complete


def test_what_orbax_left_unfinished_is_no_checkpoint(tmp_path):
    path = save(tmp_path / "1").rename(tmp_path / "1.orbax-checkpoint-tmp")
    (refused,) = firstnan.scan(path).not_counted
    assert refused.reason == "Orbax had not finished this checkpoint"


def test_parts_of_processes_that_were_never_merged(tmp_path):
    path = save(tmp_path / "1")
    (path / "manifest.ocdbt").unlink()
    scanned = firstnan.scan(path)
    assert scanned.tensors == ()
    assert "never merged" in scanned.not_counted[0].reason
    assert {entry.name for entry in scanned.not_counted[1:]} == set(EXPECTED)


def test_without_tensorstore_it_says_what_to_install(tmp_path):
    path = save(tmp_path / "1")
    code = "import sys; sys.modules['tensorstore'] = None; from firstnan.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, "scan", path], capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"firstnan: an Orbax checkpoint needs the package tensorstore: pip install 'firstnan[scan]'\n"


def test_the_command(tmp_path):
    done = command("scan", "--json", save(tmp_path / "1"))
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, b"")
    assert document["nonfinite"] == sum(sum(expected(array)[1:4]) for array in EXPECTED.values())
    assert document["tensors"][0]["name"] == "layers.1"


def test_memory_is_bounded_by_the_chunks(tmp_path):
    """128 MiB in chunks of 2 MiB: at most what is asked for ahead, unpacked, and as much packed and in copies."""
    array = np.random.default_rng(0).normal(size=(1 << 25)).astype(np.float32)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        arguments = ocp.args.PyTreeSave({"w": array}, save_args={"w": ocp.SaveArgs(chunk_byte_size=2 << 20)})
        checkpointer.save(tmp_path / "large", args=arguments)
        checkpointer.save(tmp_path / "small", args=ocp.args.PyTreeSave({"w": array[:4]}))
    grown, checked, _ = peak_growth(tmp_path / "small", tmp_path / "large")
    assert checked == 1 << 25
    assert grown < 96 << 20
