#!/usr/bin/env bash
# quickstart.sh PROGRAM FOLDER: the main job on real input, with no download. A small Llama-style model of bytes learns the text of this
# project over four ranks (threads of one process), at ZeRO-3, under a device budget in which ZeRO-0 does not fit.
# FOLDER holds what it makes: text.txt, machine.json, plan.json, run.jsonl, summary.json.
set -euo pipefail
program=$1 folder=$2
model=tiny-llama-bytes ranks=4
device_budget=${ZP_QUICKSTART_BUDGET:-14MiB}
steps=${ZP_QUICKSTART_STEPS:-60}
run=(--precision fp32 --optimizer adamw --seq 128 --micro-batch 2 --backend cpu --comm loopback)
threads=$(($(nproc) / ranks > 0 ? $(nproc) / ranks : 1))

title() { printf '\n--- %s\n' "$*"; }

# The command line is shown as a user would type it, then run.
zeroplan() {
  printf '$ zeroplan %s\n' "${*//$PWD\//}"
  "$program" "$@"
}

rm -rf "$folder"
mkdir -p "$folder"

title "The text: this project's own documents and sources"
find . \( -name build -o -name .git \) -prune -o -type f \( -name '*.md' -o -name '*.h' -o -name '*.cpp' \) -print | LC_ALL=C sort |
  xargs -d '\n' cat > "$folder/text.txt"
printf '%s bytes\n' "$(wc -c < "$folder/text.txt")"

title "What this machine does: measured once, no model involved"
zeroplan calibrate --quick -o "$folder/machine.json"
machine=$folder/machine.json

title "How much: model states and peaks for each ZeRO stage"
zeroplan estimate "$model" --gpus "$ranks" --stage all "${run[@]}"

title "ZeRO-0 does not fit $device_budget per rank"
status=0
zeroplan plan "$model" --machine "$machine" --gpus "$ranks" --budget "$device_budget" --stage 0 "${run[@]}" || status=$?
if ((status != 1)); then
  printf 'quickstart: expected exit 1 for ZeRO-0 under %s, got %d\n' "$device_budget" "$status" >&2
  exit 1
fi

title "ZeRO-3 fits: the plan, and why"
zeroplan plan "$model" --machine "$machine" --gpus "$ranks" --budget "$device_budget" --stage 3 "${run[@]}" -o "$folder/plan.json"

title "The plan predicted"
zeroplan simulate "$folder/plan.json" --machine "$machine"

title "The plan executed: $steps steps"
zeroplan train "$folder/plan.json" --data "$folder/text.txt" --ranks "$ranks" --threads "$threads" --steps "$steps" --lr 2e-3 \
  --warmup-steps 5 --schedule cosine --log "$folder/run.jsonl"

title "Planned and used, predicted and measured"
tail -n 1 "$folder/run.jsonl" > "$folder/summary.json"
# Loss of the first and the last step, and the summary's figures, from the log alone.
awk -F'"loss":' 'NR == 1 {split($2, a, /[,}]/); first = a[1]} /"summary"/ {exit} NF > 1 {split($2, a, /[,}]/); last = a[1]}
  END {printf "loss          %.4f -> %.4f\n", first, last; exit !(last + 0 < first + 0)}' "$folder/run.jsonl"
figure() { grep -oE "\"$1\": ?(\{[^}]*\}|[-+0-9.e]+)" "$folder/summary.json" | head -n 1 | cut -d: -f2-; }
for key in planned used written predicted_step_s measured_step_s; do
  printf '%-18s %s\n' "$key" "$(figure "$key")"
done
