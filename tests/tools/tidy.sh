#!/usr/bin/env bash
# tidy.sh BUILD_FOLDER SECONDS JOBS: clang-tidy over the sources of this tree within a time limit, the most recently changed first.
# A file that passed is not looked at again until it, a header of ours that it includes, or .clang-tidy changes. Files that the
# limit left out are counted on the last line; a finding fails the run.
set -euo pipefail
build=$1 limit=$2 jobs=$3
cache=${XDG_CACHE_HOME:-$HOME/.cache}/zeroplan-tidy
mkdir -p "$cache"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Files of the database only: others (CUDA without nvcc) have no flags to be read with. Most recently committed first.
git log --format= --name-only -n 200 -- '*.cpp' | awk '!seen[$0]++' > "$scratch/recent"
git ls-files -- '*.cpp' > "$scratch/tracked"
grep -hxFf "$scratch/tracked" "$scratch/recent" > "$scratch/ordered" || true
grep -vxFf "$scratch/recent" "$scratch/tracked" >> "$scratch/ordered" || true
while IFS= read -r file; do
  if [[ $file != tests/* ]] && grep -qF "\"file\": \"$PWD/$file\"" "$build/compile_commands.json"; then
    printf '%s\n' "$file"
  fi
done < "$scratch/ordered" > "$scratch/files"

examine() {
  local file=$1 headers key
  if ((SECONDS_AT_START + LIMIT <= $(date +%s))); then
    echo "$file" >> "$SCRATCH/left"
    return 0
  fi
  headers=$(g++ -std=c++20 -I. -MM "$file" 2>/dev/null | tr -d '\\\n' | cut -d: -f2-) || headers=$file
  # shellcheck disable=SC2086  # the list of files is meant to be split
  key=$(cat .clang-tidy $headers | sha256sum | cut -c1-40)
  if [[ -f $CACHE/$key ]]; then
    echo "$file" >> "$SCRATCH/known"
  elif clang-tidy --quiet -p "$BUILD" --extra-arg=-Wno-unknown-warning-option "$file" > "$SCRATCH/$key.out" 2> "$SCRATCH/$key.err"; then
    touch "$CACHE/$key"
    echo "$file" >> "$SCRATCH/passed"
  else
    grep -hE -A4 '(warning|error):' "$SCRATCH/$key.out" "$SCRATCH/$key.err" || cat "$SCRATCH/$key.out" "$SCRATCH/$key.err"
    echo "$file" >> "$SCRATCH/failed"
  fi
}
export -f examine
export SCRATCH=$scratch CACHE=$cache BUILD=$build LIMIT=$limit
SECONDS_AT_START=$(date +%s)
export SECONDS_AT_START
xargs -r -a "$scratch/files" -d '\n' -n 1 -P "$jobs" bash -c 'examine "$1"' examine

count() { if [[ -f $scratch/$1 ]]; then wc -l < "$scratch/$1"; else echo 0; fi; }
echo "clang-tidy: $(count passed) examined and clean, $(count known) unchanged since they were, $(count failed) with findings," \
  "$(count left) of $(wc -l < "$scratch/files") left out by the limit of $limit s"
[[ $(count failed) == 0 ]]
