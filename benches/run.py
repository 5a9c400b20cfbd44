"""Every benchmark: us and the peers in one process, as ratios.

    python benches/run.py [--json FILE]

A ratio is peer / ours, the median over rounds that take turns. A ratio below its target is marked MISSED; the exit
code is 0 all the same, since a busy machine is no fault of the code.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parent.parent / "tests")]
import core  # noqa: E402
import counting  # noqa: E402
import decode_peers  # noqa: E402
import footprint  # noqa: E402
import ingest  # noqa: E402
import locate  # noqa: E402
import questions  # noqa: E402
import scan  # noqa: E402
import store  # noqa: E402


def machine() -> str:
    try:
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    except OSError:
        names = []
    processor = names[0].split(": ")[1] if names else platform.processor()
    return f"CPython {platform.python_version()}, {processor}, one core of {os.cpu_count()}"


def probes_elsewhere() -> object:
    """`probes.py` in a process of its own, since XLA's threads here keep to the one core that they began on."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "probes.json"
        subprocess.run([sys.executable, Path(__file__).with_name("probes.py"), "--json", figures], check=True)
        return json.loads(figures.read_text(encoding="utf-8"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(machine(), "\n")
    print(f"{'question':32} {'peer':16} {'ours us':>9} {'peer us':>9} {'ratio':>7} {'target':>7}")
    results = []
    for result in itertools.chain(core.comparisons(), decode_peers.comparisons()):
        results.append(result)
        print(f"{result.question:32} {result.peer:16} {result.ours_s * 1e6:9.2f} {result.peer_s * 1e6:9.2f} "
              f"{result.ratio:7.1f} {result.target:7.0f}{'' if result.met else '  MISSED'}", flush=True)
    import_ms, peak = footprint.import_seconds("firstnan") * 1e3, footprint.decode_peak_bytes()
    print(f"\nimport firstnan           {import_ms:8.0f} ms    target   100{'' if import_ms < 100 else '  MISSED'}")
    if peak is not None:
        print(f"decoding 64 KiB, at most  {peak / 1024:8.0f} KiB   target  1024{'' if peak <= 1 << 20 else '  MISSED'}")
    births = locate.measured()
    print(f"locate / eager step       {births.ratio:8.1f} x     target    10{'' if births.ratio < locate.TARGET else '  MISSED'}"
          f"   (first run of each {births.first_ratio:.1f} x)")
    if cores:
        os.sched_setaffinity(0, cores)
    print(f"\n{'question':32} {'peer':16} {'ours ms':>9} {'peer ms':>9} {'ratio':>7} {'target':>7}", flush=True)
    counted = counting.print_comparisons()
    print(f"\none training step of a transformer, {len(cores) or os.cpu_count()} cores; a ratio is variant / bare", flush=True)
    watched = probes_elsewhere()
    print(f"\na checkpoint of 2 GiB in page cache, {len(cores) or os.cpu_count()} cores", flush=True)
    scanned = scan.measured()
    scan.show(scanned)
    print()
    ingested = ingest.main(["--scaling", "100000", "1000000"])
    kept = store.measured()
    print("\n" + store.shown(kept) + "\n", flush=True)
    asked = questions.main([])
    if arguments.json:
        everything = {"machine": machine(), "comparisons": [asdict(result) for result in results],
                      "import_firstnan_ms": import_ms, "decode_64_kib_peak_bytes": peak,
                      "counting": [asdict(result) for result in counted],
                      "locate": asdict(births), "probes": watched, "scan": asdict(scanned), "ingest": ingested,
                      "store": asdict(kept), "questions": asked}
        arguments.json.write_text(json.dumps(everything, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
