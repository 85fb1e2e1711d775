#!/usr/bin/env python3
"""Writes golden.json beside this file: losses, gradients and updates of small GPT-2 models.

Everything is computed in float64 with PyTorch's autograd and is the reference for the C++ tests,
which reproduce weights and tokens from the formulas below (golden.hpp). The same computation in
float32 gives the `float32_*` figures: how far rounding alone takes a correct implementation.

Semantics are those of Hugging Face GPT-2 with dropout 0: weights of linear layers are [in, out],
learned positions, pre-norm blocks, LayerNorm eps 1e-5, tanh-GELU, output tied to wte.

Needs torch (any recent version, CPU). Run: python3 tests/golden/make_golden.py
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F

MASK = (1 << 64) - 1
FULL = 64  # tensors of at most so many elements are written whole
SAMPLES = 12  # elements written of the others


# ---- formulas shared with golden.hpp ------------------------------------------------------------
def name_key(name):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def mix(x):
    """The finalizer of splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def bits(name, index):
    return mix(name_key(name) ^ mix(index))


def unit(name, index):
    """Uniform in [-1, 1) with 16 bits: exact in float32."""
    return ((bits(name, index) >> 48) - 32768) / 32768


def scale(name):
    if name.endswith("c_attn.weight"):
        return 0.5
    if name.endswith("c_fc.weight"):
        return 0.25
    return 0.125


def weight(name, index):
    is_norm_gain = name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight"))
    return (1.0 if is_norm_gain else 0.0) + scale(name) * unit(name, index)


def token(index, vocabulary):
    return bits("tokens", index) % vocabulary


def sample_indices(name, count):
    if count <= FULL:
        return list(range(count))
    return [bits(name + ".sample", i) % count for i in range(SAMPLES)]


# ---- model --------------------------------------------------------------------------------------
def shapes(c):
    d, out = c["hidden"], [("wte.weight", (c["vocabulary"], c["hidden"])),
                           ("wpe.weight", (c["context"], c["hidden"]))]
    for n in range(c["layers"]):
        h = f"h.{n}."
        out += [(h + "ln_1.weight", (d,)), (h + "ln_1.bias", (d,)),
                (h + "attn.c_attn.weight", (d, 3 * d)), (h + "attn.c_attn.bias", (3 * d,)),
                (h + "attn.c_proj.weight", (d, d)), (h + "attn.c_proj.bias", (d,)),
                (h + "ln_2.weight", (d,)), (h + "ln_2.bias", (d,)),
                (h + "mlp.c_fc.weight", (d, 4 * d)), (h + "mlp.c_fc.bias", (4 * d,)),
                (h + "mlp.c_proj.weight", (4 * d, d)), (h + "mlp.c_proj.bias", (d,))]
    return out + [("ln_f.weight", (d,)), ("ln_f.bias", (d,))]


def make_weights(c, dtype):
    params = {}
    for name, shape in shapes(c):
        values = [weight(name, i) for i in range(math.prod(shape))]
        params[name] = torch.tensor(values, dtype=torch.float64).reshape(shape).to(dtype)
    return params


def make_tokens(c, step):
    row = c["seq"] + 1
    first = step * c["batch"] * row
    ids = [token(first + i, c["vocabulary"]) for i in range(c["batch"] * row)]
    ids = torch.tensor(ids).reshape(c["batch"], row)
    return ids[:, :-1], ids[:, 1:]


def token_losses(c, p, tokens, targets):
    batch, seq = tokens.shape
    hidden, heads = c["hidden"], c["heads"]
    norm = lambda x, n: F.layer_norm(x, (hidden,), p[n + ".weight"], p[n + ".bias"], 1e-5)
    linear = lambda x, n: x @ p[n + ".weight"] + p[n + ".bias"]
    split = lambda x: x.reshape(batch, seq, heads, hidden // heads).transpose(1, 2)
    future = torch.ones(seq, seq).triu(1).bool()
    x = p["wte.weight"][tokens] + p["wpe.weight"][:seq]
    for n in range(c["layers"]):
        h = f"h.{n}."
        q, k, v = map(split, linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(hidden, 2))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(hidden // heads)
        attended = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        x = x + linear(attended.transpose(1, 2).reshape(batch, seq, hidden), h + "attn.c_proj")
        inner = F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh")
        x = x + linear(inner, h + "mlp.c_proj")
    logits = norm(x, "ln_f") @ p["wte.weight"].t()
    return F.cross_entropy(logits.reshape(batch * seq, -1), targets.reshape(-1), reduction="none")


def loss_and_gradients(c, p, step):
    leaves = {name: t.detach().clone().requires_grad_() for name, t in p.items()}
    losses = token_losses(c, leaves, *make_tokens(c, step))
    loss = losses.mean()
    loss.backward()
    return loss.item(), losses.detach(), {name: t.grad for name, t in leaves.items()}


def norm_of(tensors):
    return math.sqrt(sum(t.double().square().sum().item() for t in tensors))


# ---- optimizers ---------------------------------------------------------------------------------
def train(c, run, dtype):
    """Decoupled weight decay on tensors of two dimensions or more; gradients are scaled by
    min(1, clip / norm). SGD adds the decay to the gradient, as PyTorch does."""
    p = make_weights(c, dtype)
    m = {name: torch.zeros_like(t) for name, t in p.items()}
    v = {name: torch.zeros_like(t) for name, t in p.items()}
    losses, norms = [], []
    for step in range(run["steps"]):
        loss, _, grads = loss_and_gradients(c, p, step)
        norm = norm_of(grads.values())
        factor = min(1.0, run["clip"] / norm) if run["clip"] > 0 else 1.0
        losses.append(loss)
        norms.append(norm)
        for name, t in p.items():
            g = grads[name] * factor
            decay = run["weight_decay"] if t.dim() >= 2 else 0.0
            if run["optimizer"] == "sgd":
                m[name] = run["momentum"] * m[name] + g + decay * t
                t -= run["lr"] * m[name]
                continue
            beta1, beta2 = run["beta1"], run["beta2"]
            t *= 1 - run["lr"] * decay
            m[name] = beta1 * m[name] + (1 - beta1) * g
            v[name] = beta2 * v[name] + (1 - beta2) * g * g
            m_hat = m[name] / (1 - beta1 ** (step + 1))
            v_hat = v[name] / (1 - beta2 ** (step + 1))
            t -= run["lr"] * m_hat / (v_hat.sqrt() + run["eps"])
    return losses, norms, p


def check_against_torch(c, run):
    """Our few lines above against torch.optim."""
    ours = train(c, run, torch.float64)[2]
    p = {n: t.requires_grad_() for n, t in make_weights(c, torch.float64).items()}
    groups = [
        {"params": [t for t in p.values() if t.dim() >= 2], "weight_decay": run["weight_decay"]},
        {"params": [t for t in p.values() if t.dim() < 2], "weight_decay": 0.0}]
    if run["optimizer"] == "sgd":
        opt = torch.optim.SGD(groups, lr=run["lr"], momentum=run["momentum"])
    else:
        opt = torch.optim.AdamW(groups, lr=run["lr"], betas=(run["beta1"], run["beta2"]),
                                eps=run["eps"])
    for step in range(run["steps"]):
        opt.zero_grad()
        token_losses(c, p, *make_tokens(c, step)).mean().backward()
        if run["clip"] > 0:
            torch.nn.utils.clip_grad_norm_(p.values(), run["clip"])
        opt.step()
    worst = max((p[n].detach() - ours[n]).abs().max().item() for n in p)
    assert worst < 1e-7, worst  # clip_grad_norm_ divides by norm + 1e-6


# ---- output -------------------------------------------------------------------------------------
def digits(x):
    return float(f"{x:.8g}")


def describe(name, exact, rounded):
    """L2 norm, projection on a fixed random direction (finds permuted elements), elements."""
    flat = exact.flatten().double()
    direction = torch.tensor([unit(name + ".probe", i) for i in range(flat.numel())],
                             dtype=torch.float64)
    norm = flat.norm().item()
    error = (rounded.flatten().double() - flat).norm().item()
    return {"name": name, "shape": list(exact.shape), "norm": digits(norm),
            "probe": digits((flat * direction).sum().item()),
            "float32_error": float(f"{error / norm if norm > 0 else 0.0:.2g}"),
            "values": [digits(flat[i].item()) for i in sample_indices(name, flat.numel())]}


def describe_all(exact, rounded):
    return [describe(name, t, rounded[name]) for name, t in exact.items()]


def make_case(c):
    p64, p32 = make_weights(c, torch.float64), make_weights(c, torch.float32)
    loss, losses, grads = loss_and_gradients(c, p64, 0)
    loss32, _, grads32 = loss_and_gradients(c, p32, 0)
    rounded = {n: t.to(torch.bfloat16).double() for n, t in p64.items()}
    loss_bf16, _, grads_bf16 = loss_and_gradients(c, rounded, 0)
    out = dict(c)
    out["weights"] = [{"name": n, "first": weight(n, 0), "last": weight(n, t.numel() - 1)}
                      for n, t in p64.items()]
    out.update(loss=digits(loss), float32_loss=digits(loss32),
               token_losses=[digits(x) for x in losses.tolist()],
               gradient_norm=digits(norm_of(grads.values())),
               gradients=describe_all(grads, grads32))
    # Weights rounded to bfloat16, all arithmetic exact: for loose comparisons.
    out["bf16_weights"] = {
        "loss": digits(loss_bf16), "gradient_norm": digits(norm_of(grads_bf16.values())),
        "norms": {n: digits(g.norm().item()) for n, g in grads_bf16.items()}}
    adamw = {"optimizer": "adamw", "steps": 5, "lr": 1e-3, "beta1": 0.9, "beta2": 0.99,
             "eps": 1e-4, "weight_decay": 0.1, "momentum": 0.0}
    sgd = {"optimizer": "sgd", "steps": 5, "lr": 0.1, "beta1": 0.0, "beta2": 0.0, "eps": 0.0,
           "weight_decay": 0.0, "momentum": 0.0}
    # Clip 0 is off; 1 is active in every step (asserted); 100 is on but never active.
    runs = [dict(adamw, clip=0.0), dict(adamw, clip=1.0), dict(adamw, clip=100.0),
            dict(sgd, clip=0.0), dict(sgd, clip=1.0, weight_decay=0.1),
            dict(sgd, clip=1.0, weight_decay=0.1, momentum=0.9)]
    out["runs"] = []
    for run in runs:
        check_against_torch(c, run)
        losses64, norms64, final64 = train(c, run, torch.float64)
        losses32, _, final32 = train(c, run, torch.float32)
        if run["clip"] > 0:
            assert all((n > run["clip"]) == (run["clip"] == 1.0) for n in norms64), norms64
        run["losses"] = [digits(x) for x in losses64]
        run["gradient_norms"] = [digits(x) for x in norms64]
        run["float32_losses"] = [digits(x) for x in losses32]
        if run["clip"] != 100.0:  # the same weights as without clipping
            run["weights"] = describe_all(final64, final32)
        out["runs"].append(run)
    return out


def main():
    cases = [
        {"model": "gpt2:L2,D32,H2,V97,T16", "layers": 2, "hidden": 32, "heads": 2,
         "vocabulary": 97, "context": 16, "batch": 2, "seq": 12},
        {"model": "gpt2:L3,D48,H3,V61,T10", "layers": 3, "hidden": 48, "heads": 3,
         "vocabulary": 61, "context": 10, "batch": 4, "seq": 10},
    ]
    path = pathlib.Path(__file__).with_name("golden.json")
    text = json.dumps({"cases": [make_case(c) for c in cases]}, separators=(",", ":"))
    path.write_text(text.replace('{"name"', '\n{"name"') + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
