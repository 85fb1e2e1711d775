#!/usr/bin/env python3
"""Writes the trace of a deep network with about so many uses of tensors, to measure planning with.

usage: make_trace.py USES > FILE

A block has 16 layers: a matrix and a bias each, read forward, and read and given a gradient
backward: 5 uses a layer. Each layer leaves a value to its backward op. Prints to stderr a budget of
the device, in bytes, that holds all values and a few hundred matrices.
"""
import json
import sys

LAYERS = 16
USES_OF_A_LAYER = 5
MATRICES = [(1024, 1024), (1024, 1024), (1024, 2048), (2048, 1024)]
VALUE_BYTES = [4096, 8192, 4096, 16384]
GRADIENT_BYTES = 8192


def main():
    blocks = max(1, int(sys.argv[1]) // (LAYERS * USES_OF_A_LAYER))
    layers = blocks * LAYERS
    out = []

    def line(**fields):
        out.append(json.dumps(fields, separators=(",", ":")))
        if len(out) == 10000:
            flush()

    def flush():
        sys.stdout.write("\n".join(out) + "\n" if out else "")
        out.clear()

    line(strata_trace=1, model=f"{layers} layers", tokens=1024, blocks=blocks, tensors=2 * layers,
         values=2 * layers, ops=2 * layers)
    for i in range(layers):
        rows, columns = MATRICES[i % 4]
        line(tensor=2 * i, name=f"{i}.weight", shape=[rows, columns], dtype="bf16")
        line(tensor=2 * i + 1, name=f"{i}.bias", shape=[columns], dtype="bf16", decay=False)
    for i in range(layers):
        line(value=i, name="x", bytes=VALUE_BYTES[i % 4])
    for i in range(layers):
        line(value=layers + i, name="dx", bytes=GRADIENT_BYTES)
    for i in range(layers):
        rows, columns = MATRICES[i % 4]
        line(op=i, kind="forward", block=i // LAYERS, name="layer",
             uses=[[2 * i, "read"], [2 * i + 1, "read"]], out=[i], flops=2048 * rows * columns,
             bytes=2 * rows * columns, **({"in": [i - 1]} if i else {}))
    for n, i in enumerate(reversed(range(layers))):
        rows, columns = MATRICES[i % 4]
        line(op=layers + n, kind="backward", block=i // LAYERS, name="layer backward",
             uses=[[2 * i, "read"], [2 * i, "write"], [2 * i + 1, "write"]],
             out=[layers + n], flops=4096 * rows * columns, bytes=4 * rows * columns,
             **{"in": [i] + ([layers + n - 1] if n else [])})
    flush()
    values = sum(VALUE_BYTES[i % 4] for i in range(layers)) + 2 * GRADIENT_BYTES
    # Beside values, the engine's own records: some of each matrix.
    print(values + layers * 1024 + (2 << 30), file=sys.stderr)


main()
