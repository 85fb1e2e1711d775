#!/usr/bin/env bash
# Trains a 10.8 M parameter GPT-2 on Moby Dick with half the device memory it would take resident,
# then runs its first steps again in a third of its training state and resident: the same bits.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
strata=${STRATA_BIN:?set STRATA_BIN to the strata binary}
out=${STRATA_DEMO_OUT:-out/demo}
steps=${STRATA_DEMO_STEPS:-1000}

# The memory that kernels need grows with their threads, and the budgets below are for four.
threads=$(nproc)
run=(--model gpt2:L6,D384,H6,V256,T128 --data "$here/data/moby-dick.txt" --batch 8
  --threads "$((threads < 4 ? threads : 4))"
  --lr 1e-3 --min-lr 1e-4 --beta2 0.99 --weight-decay 0.1 --clip 1 --dtype fp32
  --host-mem 256MiB --policy lru)

echo "== Training $steps steps; metrics go to $out/metrics.jsonl"
"$strata" train "${run[@]}" --device-mem 176MiB \
  --steps "$steps" --warmup "$((steps / 20))" --out "$out"
echo
echo "== The first 20 steps in 56 MiB, rebuilding activations, and with everything resident"
"$strata" verify "${run[@]}" --device-mem 56MiB --recompute block --steps 20 --warmup 10
