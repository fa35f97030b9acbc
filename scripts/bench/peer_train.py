#!/usr/bin/env python3
"""Trains a plain PyTorch GPT of the usual kind on random ids and prints one JSON line: the peer tril is timed against.

The usual kind: learned positions, LayerNorm, one fused q/k/v projection, F.scaled_dot_product_attention(is_causal),
GELU, tied head, F.cross_entropy over all logits at once, torch.optim.AdamW with its own defaults for how it steps.

tokens_per_second is the median over groups of --log-interval steps, the first groups left out (warm-up); the loss is
read once per group, so nothing waits for it in between. step_ms is the time behind that median.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ACTIVATIONS = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
}


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.proj = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, D)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, bias, activation):
        super().__init__()
        self.ln1 = nn.LayerNorm(width, bias=bias)
        self.attention = Attention(width, heads, bias)
        self.ln2 = nn.LayerNorm(width, bias=bias)
        self.up = nn.Linear(width, 4 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.down(self.activation(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, context, width, blocks, heads, bias, activation):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, bias, activation) for _ in range(blocks))
        self.norm = nn.LayerNorm(width, bias=bias)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                residual = name.endswith(("proj.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * blocks) ** 0.5 if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))  # (B, T, V)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-embed", type=int, default=128)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=65)
    parser.add_argument("--activation", choices=ACTIVATIONS, default="gelu_tanh")
    parser.add_argument("--bias", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--grad-clip", type=float, default=1.0, help="0: no clipping")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0, help="stop after the group in which this time is up")
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--threads", type=int, default=0, help="0: torch's own choice")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    a = parse_arguments()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    model = GPT(a.vocab, a.context, a.n_embed, a.blocks, a.heads, a.bias, a.activation)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": a.weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=a.learning_rate, betas=(0.9, 0.95), eps=1e-8)
    forward = torch.compile(model) if a.compile else model
    data = torch.randint(a.vocab, (max(100_000, 2 * a.context),))

    def train_step():
        starts = torch.randint(len(data) - a.context, (a.batch,)).tolist()
        windows = torch.stack([data[start:start + a.context + 1] for start in starts])  # (B, T + 1)
        autocast = torch.autocast("cpu", torch.bfloat16) if a.precision == "bf16" else contextlib.nullcontext()
        with autocast:
            loss = forward(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if a.grad_clip:
            torch.nn.utils.clip_grad_norm_(parameters, a.grad_clip)
        optimizer.step()
        return loss.detach()

    begin = time.perf_counter()
    group_seconds, steps, loss = [], 0, None
    while steps < a.steps and not (a.seconds and time.perf_counter() - begin > a.seconds):
        group_begin = time.perf_counter()
        for _ in range(a.log_interval):
            loss = train_step()
        loss = loss.item()
        group_seconds.append(time.perf_counter() - group_begin)
        steps += a.log_interval
    warm = group_seconds[max(1, len(group_seconds) // 5):] or group_seconds
    step_seconds = statistics.median(warm) / a.log_interval
    print(json.dumps({
        "tokens_per_second": round(a.batch * a.context / step_seconds, 1),
        "step_ms": round(step_seconds * 1000, 3),
        "loss": round(loss, 6),
        "steps": steps,
        "parameters": sum(p.numel() for p in parameters),
        "threads": torch.get_num_threads(),
        "precision": a.precision,
        "compiled": a.compile,
        "torch": torch.__version__,
    }))


if __name__ == "__main__":
    main()
