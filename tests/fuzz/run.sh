#!/bin/sh
# Builds the libFuzzer targets with clang and runs each, or only those named, for SECONDS (default 600). The corpus of a target is
# tests/fuzz/corpus/TARGET; what a run adds lies in build/fuzz/corpus/TARGET, what broke in build/fuzz/findings.
# usage: tests/fuzz/run.sh [SECONDS] [TARGET...]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-600}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- config_json safetensors_header reader hostfile
cd "$root"
cmake --preset fuzz --log-level=WARNING
cmake --build build/fuzz --target fuzz_targets -- --quiet
mkdir -p build/fuzz/findings
for target in "$@"; do
  mkdir -p "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target"
  "build/fuzz/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$target-" "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target"
done
