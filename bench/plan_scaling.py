#!/usr/bin/env python3
"""How long planning takes, and how that grows.

usage: STRATA_BIN=strata bench/plan_scaling.py [USES...]

For each number of uses of tensors, a trace of a deep network is written; `strata sim` reads it,
lays it out, lowers it, plans it and simulates four steps. Then `strata plan` plans a model of 100
layers again and again. Both use the policy belady, on one core.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

STRATA = os.environ.get("STRATA_BIN", "strata")
USES = [10_000, 30_000, 100_000, 300_000, 1_000_000]
SIM = "--policy belady --clip 1 --host-mem 64TiB --steps 1 --no-bound --json".split()
MODEL = "gpt2:L100,D512,H8,V8192,T64"
PLAN = (f"plan --model {MODEL} --dtype bf16 --batch 16 --clip 0 --device-mem 2000MiB "
        "--nvme . --nvme-mem 20GiB --policy belady --json").split()
PLANS = 40

LAYERS_OF_A_BLOCK = 16
USES_OF_A_LAYER = 5  # matrix and bias forward; the matrix and both gradients backward
MATRICES = [(1024, 1024), (1024, 1024), (1024, 2048), (2048, 1024)]
VALUE_BYTES = [4096, 8192, 4096, 16384]  # that a layer leaves to its backward op
GRADIENT_BYTES = 8192


def trace_lines(uses):
    """Layers of a matrix and a bias each, with one op a layer each way."""
    blocks = max(1, uses // (LAYERS_OF_A_BLOCK * USES_OF_A_LAYER))
    layers = blocks * LAYERS_OF_A_BLOCK
    yield {"strata_trace": 1, "model": f"{layers} layers", "tokens": 1024, "blocks": blocks,
           "tensors": 2 * layers, "values": 2 * layers, "ops": 2 * layers}
    for i in range(layers):
        shape = MATRICES[i % 4]
        yield {"tensor": 2 * i, "name": f"{i}.weight", "shape": shape, "dtype": "bf16"}
        yield {"tensor": 2 * i + 1, "name": f"{i}.bias", "shape": shape[1:], "dtype": "bf16"}
    for i in range(layers):
        yield {"value": i, "name": "x", "bytes": VALUE_BYTES[i % 4]}
    for i in range(layers):
        yield {"value": layers + i, "name": "dx", "bytes": GRADIENT_BYTES}
    for op in range(2 * layers):
        forward = op < layers
        i = op if forward else 2 * layers - 1 - op
        elements = MATRICES[i % 4][0] * MATRICES[i % 4][1]
        block = i // LAYERS_OF_A_BLOCK
        if forward:
            yield {"op": op, "kind": "forward", "block": block, "name": "layer",
                   "uses": [[2 * i, "read"], [2 * i + 1, "read"]],
                   "in": [op - 1] if op else [], "out": [op], "flops": 2048 * elements}
        else:
            yield {"op": op, "kind": "backward", "block": block, "name": "layer backward",
                   "uses": [[2 * i, "read"], [2 * i, "write"], [2 * i + 1, "write"]],
                   "in": [i] + ([op - 1] if op > layers else []), "out": [op],
                   "flops": 4096 * elements}


def device_bytes(uses):
    """All values, and some 500 matrices beside them."""
    layers = max(1, uses // (LAYERS_OF_A_BLOCK * USES_OF_A_LAYER)) * LAYERS_OF_A_BLOCK
    return layers * (sum(VALUE_BYTES) // 4 + 1024) + (2 << 30)


def measure(command):
    """Seconds on the clock, seconds of CPU, peak memory in MiB, and what it found."""
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        found = json.loads(process.stdout.read())
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
    assert status == 0 and found["fits"], command
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, found


def main():
    print(f"== strata sim TRACE --device-mem BYTES {' '.join(SIM)}")
    print(f"{'uses':>9} {'ops':>9} {'seconds':>9} {'CPU s':>9} {'us/use':>9} {'peak MiB':>9}")
    for uses in [int(n) for n in sys.argv[1:]] or USES:
        with tempfile.NamedTemporaryFile("w", suffix=".trace") as trace:
            ops = 0
            for line in trace_lines(uses):
                ops = line.get("ops", ops)
                trace.write(json.dumps(line, separators=(",", ":")) + "\n")
            trace.flush()
            seconds, cpu, peak, _ = measure(
                [STRATA, "sim", trace.name, "--device-mem", str(device_bytes(uses)), *SIM])
        print(f"{uses:>9} {ops:>9} {seconds:>9.2f} {cpu:>9.2f} {1e6 * cpu / uses:>9.1f} "
              f"{peak:>9.0f}", flush=True)
    print(f"== strata {' '.join(PLAN)}, {PLANS} times")
    cpu = sum(measure([STRATA, *PLAN])[1] for _ in range(PLANS)) / PLANS
    print(f"{1e3 * cpu:.1f} ms of CPU each, start and model included; {60 / cpu:.0f} a minute")


if __name__ == "__main__":
    main()
