"""Memory does not follow the input: more than 1 GiB through a pipe, measured by the kernel."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lines import TELEMETRY

BOUND = 512 << 20
PROGRAM = """
import sys
from firstnan._core import LineReader
reader, lines, records, size = LineReader(0, name="-"), 0, 0, 0
while (shard := reader.next_shard()) is not None:
    decoded = shard.decode()
    lines, records, size = lines + decoded.lines, records + decoded.records, size + shard.bytes
    del shard, decoded
# Not ru_maxrss: a process starts with that of the one that forked it. VmHWM begins with exec.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(lines, records, size, int(peak.split()[1]) * 1024)
"""


def test_a_stream_of_more_than_a_gibibyte_stays_below_half_of_one():
    line = json.dumps(TELEMETRY).encode() + b"\n"
    block = line * ((1 << 20) // len(line)) + b"x" * (3 << 20) + b"\n"
    count = (1 << 30) // len(block) + 1
    worker = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None
    for _ in range(count):
        worker.stdin.write(block)
    out, _ = worker.communicate(timeout=250)
    lines, records, size, peak = map(int, out.split())
    assert worker.returncode == 0
    assert (lines, records, size) == (block.count(b"\n") * count, (block.count(b"\n") - 1) * count, len(block) * count)
    assert size >= 1 << 30
    assert peak < BOUND, f"{peak >> 20} MiB"


ROWS = """
import sys
from firstnan.ingest.read import shards_of
from firstnan.ingest.sources import sources_of
(source,), size = sources_of(sys.argv[1]), 0
for shard in shards_of(source, kind=None, shard_bytes=1 << 20, max_line_bytes=1 << 20):
    size += shard.bytes
    del shard
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(size, int(peak.split()[1]) * 1024)
"""


@pytest.mark.parametrize("form", ["parquet", "arrow", "stream"])
def test_rows_of_half_a_gibibyte_stay_below_half_of_that(tmp_path, form):
    path = tmp_path / f"rows.{form}"
    table = pa.table({"text": [os.urandom(1 << 15).hex() for _ in range(64)]})
    options = {"compression": "none", "use_dictionary": False}
    ways = {"parquet": lambda: pq.ParquetWriter(path, table.schema, **options),
            "arrow": lambda: pa.ipc.new_file(path, table.schema), "stream": lambda: pa.ipc.new_stream(path, table.schema)}
    with ways[form]() as sink:
        for _ in range(128):
            sink.write_table(table)
    assert path.stat().st_size >= 1 << 29
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as pipe:
        name = "-" if form == "stream" else path
        done = subprocess.run([sys.executable, "-c", ROWS, name], stdin=pipe.stdout, capture_output=True, check=True)
        pipe.kill()
    size, peak = map(int, done.stdout.split())
    assert size == 128 * 64 * ((1 << 16) + 1)
    assert peak < BOUND // 2, f"{peak >> 20} MiB"
