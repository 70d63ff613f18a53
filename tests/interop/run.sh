#!/bin/sh
# Compares `zeroplan check` and `zeroplan launch` with DeepSpeed, Accelerate and transformers themselves.
# usage: tests/interop/run.sh PROGRAM [arguments for pip install, such as an index of CPU-only builds]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "$1")
shift
environment=${ZEROPLAN_INTEROP_ENV:-$here/../../build/interop}
if [ ! -x "$environment/bin/python" ]; then
  python3 -m venv "$environment"
fi
"$environment/bin/pip" install -q -r "$here/requirements.txt" "$@"
"$environment/bin/python" "$here/load_exports.py" "$program"
exec "$environment/bin/python" "$here/compare.py" "$program"
