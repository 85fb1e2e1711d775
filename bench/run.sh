#!/usr/bin/env bash
# The headline measurements, each as its own command prints them. Arguments go to every bench verb.
set -euo pipefail
strata=${STRATA_BIN:?set STRATA_BIN to the strata binary}

for dtype in fp32 bf16; do
  echo "== strata bench step --model gpt2 --seq 256 --batch 4 --dtype $dtype $*"
  "$strata" bench step --model gpt2 --seq 256 --batch 4 --dtype "$dtype" "$@"
done
