#!/bin/sh
# Runs each fuzz target for SECONDS (600), from the vectors as seeds: rust/fuzz/run.sh [SECONDS] [TARGET...]
set -eu
seconds=${1:-600}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- decode lines canonicalize_record canonicalize_evidence
cd "$(dirname "$0")"
python3 seed.py
for target in "$@"; do
    cargo +nightly fuzz run --fuzz-dir . "$target" -- -max_total_time="$seconds" -max_len=16384 -timeout=10
done
