#!/bin/sh
# Builds the libFuzzer targets with clang and runs each for SECONDS (default 600); findings land in OUT.
# usage: tests/fuzz/run.sh [SECONDS] [OUT]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-600}
out=${2:-$root/build/fuzz}
mkdir -p "$out/obj" "$out/reader" "$out/hostfile"
flags="-std=c++20 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -I$root"
objects=
for file in "$root"/models/core/*.cpp "$root"/models/model.cpp "$root"/planner/machine.cpp "$root"/planner/machine_presets.cpp \
  "$root"/planner/strategy.cpp "$root"/planner/training_spec.cpp "$root"/planner/deepspeed/*.cpp "$root"/planner/deepspeed/*/*.cpp; do
  object="$out/obj/$(echo "${file#"$root"/}" | tr / _).o"
  [ "$object" -nt "$file" ] || ${CXX:-clang++} $flags -c "$file" -o "$object"
  objects="$objects $object"
done
for target in reader hostfile; do
  ${CXX:-clang++} $flags -fsanitize=fuzzer "$root/tests/fuzz/${target}_fuzzer.cpp" $objects -lfmt -o "$out/${target}_fuzzer"
  (cd "$out" && "./${target}_fuzzer" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=8192 \
    -artifact_prefix="$out/" "$out/$target" "$root/tests/fuzz/corpus/$target")
done
