#!/usr/bin/env bash
# Trains a 10.8 M parameter GPT-2 on Moby Dick in less than half of the memory that its state takes
# alone, the rest on a drive; dies on the way and goes on; runs its first steps again, and once more
# with everything resident, comparing bits; then writes some text.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
strata=${STRATA_BIN:?set STRATA_BIN to the strata binary}
out=${STRATA_DEMO_OUT:-out/demo}
steps=${STRATA_DEMO_STEPS:-750}
save=$((steps / 10 > 0 ? steps / 10 : 1))

# The memory that kernels need grows with their threads, and the budgets below are for four.
threads=$(nproc)
run=(--model gpt2:L6,D384,H6,V256,T128 --data "$here/data/moby-dick.txt" --batch 8
  --threads "$((threads < 4 ? threads : 4))"
  --lr 1e-3 --min-lr 1e-4 --beta2 0.99 --weight-decay 0.1 --clip 1 --dtype fp32
  --device-mem 85MiB --host-mem 0 --nvme "$out/drive" --nvme-mem 256MiB
  --policy auto --recompute 5)

# Earlier demos.
rm -rf "$out"
mkdir -p "$out/drive"
echo "== Training $steps steps, saving every $save; metrics go to $out/metrics.jsonl"
"$strata" train "${run[@]}" --steps "$steps" --warmup "$((steps / 20))" \
  --eval-every "$((steps / 4 > 0 ? steps / 4 : 1))" --checkpoint-every "$save" --out "$out" &
training=$!
trap 'kill -9 $training 2>/dev/null || true' EXIT
until compgen -G "$out/checkpoints/step-*" >/dev/null || ! kill -0 "$training" 2>/dev/null; do
  sleep 0.2
done
if kill -9 "$training" 2>/dev/null; then
  wait "$training" 2>/dev/null || true
  echo
  echo "== Killed with SIGKILL after its first checkpoint; going on from there"
  "$strata" resume "$out"
fi
wait "$training" 2>/dev/null || [[ -e $out/checkpoints/latest ]]
trap - EXIT
echo
echo "== The first 10 steps again, and with everything resident"
"$strata" verify "${run[@]}" --steps 10 --warmup 5
echo
echo "== What it writes"
"$strata" generate "$out" --prompt "The white whale " --tokens 300 --temperature 0.8 --top-k 40
