#!/usr/bin/env python3
"""Writes tests/golden/*.json: what the model must compute, by an independent implementation in plain PyTorch.

Run it with the python of `scripts/setup.sh --peers`:

    .deps/peers/bin/python scripts/make_golden.py            # writes the files
    .deps/peers/bin/python scripts/make_golden.py --check    # compares with the files, writes nothing

Nothing here is shared with the C++ code, and every formula is spelled out (norms, activations, rotary positions,
softmax, cross-entropy), one head at a time. A second opinion compares those formulas with torch's own functions.

model_<variant>.json
    config      keys of tril's `model` section
    parameters  {name: {shape, values}}: names are those of our checkpoints, values are flat, row by row
    inputs, targets (B, T) ids      logits (B, T, V)      loss: mean nats per target
    gradients   {name: {shape, values}}: d loss / d parameter, for every parameter
    adamw       10 steps on that one batch: torch.optim.AdamW(lr, betas, eps), weight decay on tensors of two or more
                dimensions only, clip_grad_norm_ first. losses[s] and grad_norms[s] are those before update s+1.
                `losses`, `grad_norms` and `final` (one tensor after the last update) are computed in float32;
                `losses_float64` is the same run in float64: the gap between the two is round-off.
attention.json
    one Head, small enough to follow by hand: x (B, T, C), the three weights (D, C), scores q k^T / sqrt(D) before the
    mask, attention (after it), output (B, T, D)

Weights are float32 numbers; logits, loss and gradients are computed from them in float64 and stored rounded to float32.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"

# Tiny sizes: every gradient of every parameter fits in a small file. B batch, T time, C width, H heads, V vocabulary.
SIZES = {"vocab_size": 32, "context_length": 8, "n_embed": 16, "n_head": 2, "n_blocks": 2}
BATCH = 2

CLASSIC = {
    "preset": "classic", "positions": "learned", "norm": "layer_norm", "activation": "relu", "qk_norm": False,
    "bias": True, "qkv_bias": False, "head_bias": True, "tie_embeddings": False,
}
GPT2 = {
    "preset": "gpt2", "positions": "learned", "norm": "layer_norm", "activation": "gelu_tanh", "qk_norm": False,
    "bias": True, "qkv_bias": True, "head_bias": False, "tie_embeddings": True,
}
MODERN = {
    "preset": "modern", "positions": "rope", "norm": "rms_norm", "activation": "relu_squared", "qk_norm": True,
    "bias": False, "qkv_bias": False, "head_bias": False, "tie_embeddings": True,
}
VARIANTS = {
    "classic": CLASSIC,
    "gpt2": GPT2,
    "modern": MODERN,
    "swiglu": MODERN | {"activation": "swiglu", "tie_embeddings": False},
    "no_bias": GPT2 | {"activation": "gelu", "bias": False, "qkv_bias": False},  # configs/shakespeare_char_cpu.json
    "shifted": MODERN | {"n_shift_head": 1},  # of two heads
}
# The tensor whose values after the AdamW steps are stored: each variant watches another kind.
WATCHED = {
    "classic": "blocks.0.attn.heads.1.key.weight",
    "gpt2": "token_embedding.weight",  # tied: both uses must add to one gradient
    "modern": "blocks.1.ffn.up.weight",
    "swiglu": "blocks.1.ffn.gate.weight",
    "shifted": "blocks.0.attn.heads.0.key.weight",
    "no_bias": "blocks.1.attn.proj.weight",
}
ADAMW = {
    "steps": 10, "learning_rate": 1e-2, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1,
    "grad_clip": 1.0,
}


class Numbers:
    """Knuth's 64-bit linear congruential generator; the top bits of each state are used."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) * n >> 31

    def weights(self, shape, around=0.0):
        """Even over around +- 0.35 (standard deviation 0.2) in steps of 0.001, so that files stay short."""
        values = [(self.below(701) - 350) / 1000 + around for _ in range(math.prod(shape))]
        return torch.tensor(values, dtype=torch.float64).round(decimals=3).float().reshape(shape)


def ffn_width(config):
    c = config["n_embed"]
    if config["activation"] == "swiglu":
        return (8 * c // 3 + 63) // 64 * 64
    return config["ffn_multiplier"] * c


def make_parameters(config, numbers):
    c, h, v = config["n_embed"], config["n_head"], config["vocab_size"]
    d, f = c // h, ffn_width(config)
    parameters = {}

    def linear(name, rows, columns, bias):
        parameters[name + ".weight"] = numbers.weights((rows, columns))
        if bias:
            parameters[name + ".bias"] = numbers.weights((rows,))

    def norm(name):
        parameters[name + ".weight"] = numbers.weights((c,), around=1.0)
        if config["norm"] == "layer_norm" and config["bias"]:
            parameters[name + ".bias"] = numbers.weights((c,))

    linear("token_embedding", v, c, bias=False)
    if config["positions"] == "learned":
        linear("position_embedding", config["context_length"], c, bias=False)
    for i in range(config["n_blocks"]):
        block = f"blocks.{i}"
        norm(f"{block}.ln1")
        for j in range(h):
            for part in ("query", "key", "value"):
                linear(f"{block}.attn.heads.{j}.{part}", d, c, config["qkv_bias"])
        linear(f"{block}.attn.proj", c, c, config["bias"])
        norm(f"{block}.ln2")
        linear(f"{block}.ffn.up", f, c, config["bias"])
        if config["activation"] == "swiglu":
            linear(f"{block}.ffn.gate", f, c, config["bias"])
        linear(f"{block}.ffn.down", c, f, config["bias"])
    norm("final_norm")
    if not config["tie_embeddings"]:
        linear("lm_head", v, c, config["head_bias"])
    elif config["head_bias"]:
        parameters["lm_head.bias"] = numbers.weights((v,))
    return parameters


# The model, formula by formula. p: the parameters; every function takes and returns tensors of one dtype.


def linear(p, name, x):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def layer_norm(x, weight, bias, epsilon):
    centred = x - x.mean(-1, keepdim=True)
    y = centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + epsilon) * weight
    return y if bias is None else y + bias


def rms_norm(x, epsilon, weight=None):
    y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon)
    return y if weight is None else y * weight


def norm(config, p, name, x):
    if config["norm"] == "rms_norm":
        return rms_norm(x, config["norm_epsilon"], p[name + ".weight"])
    return layer_norm(x, p[name + ".weight"], p.get(name + ".bias"), config["norm_epsilon"])


def rotate(x, base):
    """Rotary positions, half-split: channel j < D/2 and channel j + D/2 turn by t / base^(2j/D). x (B, T, D)."""
    t, half = x.shape[-2], x.shape[-1] // 2
    frequencies = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(t, dtype=torch.float64)[:, None] * frequencies  # (T, D/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


def softmax(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)


def attend(q, k, v):
    """One head: q, k, v (B, T, D) -> scores before the mask (B, T, T), attention (B, T, T), output (B, T, D)."""
    t = q.shape[1]
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    future = torch.ones(t, t, dtype=torch.bool).triu(1)
    attention = softmax(scores.masked_fill(future, -math.inf))
    return scores, attention, attention @ v


def head(config, p, name, x, shifted):
    q, k, v = (linear(p, f"{name}.{part}", x) for part in ("query", "key", "value"))  # (B, T, C) -> (B, T, D)
    if config["qk_norm"]:
        q, k = rms_norm(q, config["norm_epsilon"]), rms_norm(k, config["norm_epsilon"])
    if config["positions"] == "rope":
        q, k = rotate(q, config["rope_base"]), rotate(k, config["rope_base"])
    if shifted:  # the key of position j stands at j + 1, that of the first at its own place too
        k = k[:, [max(j - 1, 0) for j in range(k.shape[1])]]
    return attend(q, k, v)[2]


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + torch.exp(-x))


ACTIVATIONS = {
    "relu": lambda x: x.clamp(min=0),
    "relu_squared": lambda x: x.clamp(min=0) ** 2,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}


def feed_forward(config, p, name, x):
    up = linear(p, name + ".up", x)
    if config["activation"] == "swiglu":
        return linear(p, name + ".down", silu(linear(p, name + ".gate", x)) * up)
    return linear(p, name + ".down", ACTIVATIONS[config["activation"]](up))


def forward(config, p, ids):
    """ids (B, T) -> logits (B, T, V)."""
    x = p["token_embedding.weight"][ids]
    if config["positions"] == "learned":
        x = x + p["position_embedding.weight"][: ids.shape[1]]
    for i in range(config["n_blocks"]):
        block = f"blocks.{i}"
        y = norm(config, p, f"{block}.ln1", x)
        heads = [head(config, p, f"{block}.attn.heads.{j}", y, shifted=j < config.get("n_shift_head", 0))
                 for j in range(config["n_head"])]
        x = x + linear(p, f"{block}.attn.proj", torch.cat(heads, dim=-1))
        x = x + feed_forward(config, p, f"{block}.ffn", norm(config, p, f"{block}.ln2", x))
    x = norm(config, p, "final_norm", x)
    table = p["token_embedding.weight" if config["tie_embeddings"] else "lm_head.weight"]
    logits = x @ table.T
    return logits + p["lm_head.bias"] if config["head_bias"] else logits


def mean_loss(logits, targets):
    """Mean over all targets of -log softmax(logits)[target], in nats."""
    top = logits.max(-1, keepdim=True).values
    log_sum = torch.log(torch.exp(logits - top).sum(-1)) + top.squeeze(-1)
    return (log_sum - logits.gather(-1, targets[..., None]).squeeze(-1)).mean()


def as_leaves(parameters, dtype):
    return {name: value.to(dtype).clone().requires_grad_() for name, value in parameters.items()}


def adamw_run(config, parameters, ids, targets, dtype):
    p = as_leaves(parameters, dtype)
    decayed = [value for value in p.values() if value.dim() >= 2]
    others = [value for value in p.values() if value.dim() < 2]
    groups = [{"params": decayed, "weight_decay": ADAMW["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(
        groups, lr=ADAMW["learning_rate"], betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["epsilon"])
    losses, grad_norms = [], []
    for _ in range(ADAMW["steps"]):
        optimizer.zero_grad()
        loss = mean_loss(forward(config, p, ids), targets)
        loss.backward()
        grad_norms.append(torch.nn.utils.clip_grad_norm_(p.values(), ADAMW["grad_clip"]).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, grad_norms, p


def short(value):
    """A float whose repr has just the digits that make the float32 unique."""
    return float(str(np.float32(value)))


def flat(tensor):
    return [short(value) for value in tensor.detach().double().reshape(-1).tolist()]


def stored(tensors):
    return {name: {"shape": list(value.shape), "values": flat(value)} for name, value in tensors.items()}


def model_golden(variant):
    config = SIZES | {"rope_base": 10000.0, "norm_epsilon": 1e-5, "ffn_multiplier": 4, "dropout": 0.0} | VARIANTS[variant]
    numbers = Numbers(seed=1 + list(VARIANTS).index(variant))
    parameters = make_parameters(config, numbers)
    shape = (BATCH, config["context_length"])
    ids, targets = (
        torch.tensor([numbers.below(config["vocab_size"]) for _ in range(math.prod(shape))]).reshape(shape)
        for _ in range(2))

    p = as_leaves(parameters, torch.float64)
    logits = forward(config, p, ids)
    loss = mean_loss(logits, targets)
    loss.backward()
    other_end = torch.cat([ids[:, :-1], (ids[:, -1:] + 1) % config["vocab_size"]], dim=1)
    assert torch.equal(forward(config, p, other_end)[:, :-1], logits[:, :-1]), "a logit sees a later token"
    losses, grad_norms, after = adamw_run(config, parameters, ids, targets, torch.float32)
    losses_float64 = adamw_run(config, parameters, ids, targets, torch.float64)[0]
    return {
        "config": config,
        "parameters": stored(parameters),
        "inputs": ids.tolist(),
        "targets": targets.tolist(),
        "logits": {"shape": list(logits.shape), "values": flat(logits)},
        "loss": short(loss.item()),
        "gradients": stored({name: value.grad for name, value in p.items()}),
        "adamw": ADAMW | {
            "losses": [short(x) for x in losses],
            "losses_float64": [short(x) for x in losses_float64],
            "grad_norms": [short(x) for x in grad_norms],
            "final": stored({WATCHED[variant]: after[WATCHED[variant]]}),
        },
    }


def attention_golden():
    """B 1, T 3, C 4, D 2: numbers to follow with pencil and paper."""
    tensors = {
        "x": [[[1, 0, -1, 2], [0, 1, 1, -1], [2, -1, 0, 1]]],
        "query": [[1, 0, 0.5, 0], [0, 1, 0, 0.5]],
        "key": [[0.5, 1, 0, 0], [0, 0, 1, -0.5]],
        "value": [[1, 0, 0, 1], [0, -1, 1, 0]],
    }
    tensors = {name: torch.tensor(value, dtype=torch.float64) for name, value in tensors.items()}
    q, k, v = (tensors["x"] @ tensors[part].T for part in ("query", "key", "value"))
    tensors["scores"], tensors["attention"], tensors["output"] = attend(q, k, v)
    return stored(tensors)


def orthogonalised(x):
    """Muon's Newton-Schulz iteration, in the precision of x: the quintic of Jordan et al. 2024, five steps."""
    tall = x.shape[0] > x.shape[1]
    y = x.T if tall else x
    y = y / y.norm().clamp_min(1e-7)
    for _ in range(5):
        gram = y @ y.T
        y = 3.4445 * y + (-4.7750 * gram + 2.0315 * gram @ gram) @ y
    return y.T if tall else y


def muon_golden():
    """Three steps of torch.optim.Muon (which multiplies in bfloat16), and of the same in float64, own code."""
    settings = {"learning_rate": 0.05, "weight_decay": 0.1, "momentum": 0.95}
    torch.manual_seed(1)
    matrices = {name: torch.randn(shape) for name, shape in
                {"wide": (4, 6), "wide_too": (4, 6), "tall": (7, 3), "square": (5, 5)}.items()}
    gradients = [{name: torch.randn_like(value) for name, value in matrices.items()} for _ in range(3)]
    theirs = {name: value.clone().requires_grad_() for name, value in matrices.items()}
    optimizer = torch.optim.Muon(theirs.values(), lr=settings["learning_rate"], momentum=settings["momentum"],
                                 weight_decay=settings["weight_decay"])
    exact = {name: value.double() for name, value in matrices.items()}
    running = {name: torch.zeros_like(value) for name, value in exact.items()}
    for step in gradients:
        for name, gradient in step.items():
            theirs[name].grad = gradient.clone()
            g, m = gradient.double(), running[name]
            m.mul_(settings["momentum"]).add_(g, alpha=1 - settings["momentum"])
            ahead = (1 - settings["momentum"]) * g + settings["momentum"] * m
            rate = settings["learning_rate"] * math.sqrt(max(1, g.shape[0] / g.shape[1]))
            exact[name] = exact[name] * (1 - settings["learning_rate"] * settings["weight_decay"])
            exact[name] = exact[name] - rate * orthogonalised(ahead)
        optimizer.step()
    for name in matrices:
        torch.testing.assert_close(theirs[name].double(), exact[name], rtol=0, atol=5e-3)
    return settings | {
        "matrices": stored(matrices),
        "gradients": [stored(step) for step in gradients],
        "torch": stored(theirs),
        "exact": stored(exact),
    }


def loss_scale_golden():
    """torch.amp.GradScaler's scale after each step that changes it; gradients overflow in some steps."""
    overflows = {1, 2, 7, 2006, 2008}
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(weight)  # creates the scale
    changes, last, n_steps = [], scaler.get_scale(), 4100
    for step in range(1, n_steps + 1):
        weight.grad = torch.full((1,), math.inf if step in overflows else 1.0)
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() != last:
            last = scaler.get_scale()
            changes.append({"step": step, "scale": last})
    return {"first": 65536.0, "steps": n_steps, "overflows": sorted(overflows), "changes": changes}


def second_opinion():
    """Our formulas against torch's own functions, in float64."""
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    w, b = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    q, k, v = torch.randn(3, 2, 5, 8, dtype=torch.float64)
    targets = torch.randint(8, (2, 5))
    steps, channels = torch.arange(5, dtype=torch.float64), torch.arange(0, 8, 2, dtype=torch.float64)
    angles = torch.outer(steps, 10000.0 ** (-channels / 8))  # (T, D/2)
    turned = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones_like(angles), angles)
    pairs = {
        "layer_norm": (layer_norm(x, w, b, 1e-5), F.layer_norm(x, (8,), w, b, 1e-5)),
        "rms_norm": (rms_norm(x, 1e-5, w), F.rms_norm(x, (8,), w, 1e-5)),
        "gelu": (gelu(x), F.gelu(x)),
        "gelu_tanh": (gelu_tanh(x), F.gelu(x, approximate="tanh")),
        "silu": (silu(x), F.silu(x)),
        "attention": (attend(q, k, v)[2], F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        "loss": (mean_loss(x, targets), F.cross_entropy(x.flatten(0, 1), targets.flatten())),
        "rotate": (rotate(x, 10000.0), torch.cat([turned.real, turned.imag], -1)),
    }
    for name, (ours, theirs) in pairs.items():
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12, msg=lambda text: f"{name}: {text}")


def differences(expected, found, path=""):
    """Paths at which two golden values differ. Float32 training may differ between machines: see `tolerance`."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected.keys() | found.keys():
            if key not in expected or key not in found:
                yield f"{path}/{key}: only in {'the file' if key in expected else 'what the script makes'}"
            else:
                yield from differences(expected[key], found[key], f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for i, (a, b) in enumerate(zip(expected, found)):
            yield from differences(a, b, f"{path}[{i}]")
    elif isinstance(expected, float) and isinstance(found, float):
        # AdamW turns round-off in tiny gradients into weight differences of up to a fraction of the learning rate.
        # torch.optim.Muon multiplies in bfloat16.
        tolerance = 1e-6
        for prefix, wider in (("/adamw", 1e-5), ("/adamw/final", 1e-4), ("/torch", 5e-3)):
            if path.startswith(prefix):
                tolerance = wider
        if not abs(expected - found) <= tolerance * max(1.0, abs(expected)):
            yield f"{path}: {expected} in the file, {found} made now"
    elif expected != found:
        yield f"{path}: {expected!r} in the file, {found!r} made now"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files (within 1e-6), write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    second_opinion()

    golden = {f"model_{variant}.json": model_golden(variant) for variant in VARIANTS}
    golden["attention.json"] = attention_golden()
    golden["muon.json"] = muon_golden()
    golden["loss_scale.json"] = loss_scale_golden()
    failed = False
    for name, value in golden.items():
        file = GOLDEN / name
        if not arguments.check:
            GOLDEN.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(value, separators=(",", ":")) + "\n", encoding="utf-8")
            print(f"{file.relative_to(GOLDEN.parent.parent)}: {file.stat().st_size} bytes")
            continue
        found = list(differences(json.loads(file.read_text(encoding="utf-8")), value)) if file.exists() else ["no such file"]
        print(f"{name}: {f'{len(found)} differences' if found else 'equal'}")
        for line in found[:10]:
            print(f"  {line}")
        failed = failed or bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
