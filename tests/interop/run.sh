#!/bin/sh
# Compares `zeroplan check` and `zeroplan launch` with DeepSpeed, Accelerate and transformers themselves, and makes the answers of
# tests/deepspeed/config_semantics.jsonl again.
# usage: tests/interop/run.sh PROGRAM [arguments for pip install, such as an index of CPU-only builds]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "$1")
shift
environment=${ZEROPLAN_INTEROP_ENV:-$here/../../build/interop/deepspeed}
if [ ! -x "$environment/bin/python" ]; then
  python3 -m venv "$environment"
fi
"$environment/bin/pip" install -q -r "$here/requirements.txt" "$@"
"$environment/bin/python" -B "$here/load_exports.py" "$program"
"$environment/bin/python" -B "$here/make_semantics.py" "$environment/config_semantics.jsonl"
cmp "$environment/config_semantics.jsonl" "$here/../deepspeed/config_semantics.jsonl"
exec "$environment/bin/python" -B "$here/compare.py" "$program"
