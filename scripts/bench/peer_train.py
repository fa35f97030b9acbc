#!/usr/bin/env python3
"""Trains a PyTorch GPT on random ids and prints one JSON line: the peers tril is timed against.

The model is a plain one of the usual kind, Hugging Face's GPT-2, or nanoGPT's (peer_models.py). The step is the usual
one: forward, backward, clip_grad_norm_, torch.optim.AdamW with its own defaults for how it steps (fused on a GPU).

tokens_per_second is the median over groups of --log-interval steps, the first groups left out (warm-up); the loss is
read once per group, so nothing waits for it in between. step_ms is the time behind that median. With --stream every
group is a line of its own, {"tokens": ..., "seconds": ...}, at once.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch

from peer_models import ACTIVATIONS, MODELS


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="plain")
    parser.add_argument("--checkout", help="of nanoGPT, for --model nanogpt")
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
    parser.add_argument("--stream", action="store_true", help="print each group as it ends")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
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
    if a.device != "cpu":
        torch.set_float32_matmul_precision("high")  # TF32, as nanoGPT does
    model = MODELS[a.model](a).to(a.device)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": a.weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=a.learning_rate, betas=(0.9, 0.95), eps=1e-8, fused=True if a.device != "cpu" else None)
    forward = torch.compile(model) if a.compile else model
    data = torch.randint(a.vocab, (max(100_000, 2 * a.context),))

    def train_step():
        starts = torch.randint(len(data) - a.context, (a.batch,)).tolist()
        windows = torch.stack([data[start:start + a.context + 1] for start in starts])  # (B, T + 1)
        if a.device != "cpu":
            windows = windows.pin_memory().to(a.device, non_blocking=True)
        autocast = torch.autocast(a.device, torch.bfloat16) if a.precision == "bf16" else contextlib.nullcontext()
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
        if a.stream:
            tokens = a.batch * a.context * a.log_interval
            print(json.dumps({"tokens": tokens, "seconds": group_seconds[-1]}), flush=True)
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
        "model": a.model,
        "peak_device_bytes": torch.cuda.max_memory_allocated() if a.device != "cpu" else 0,
        "torch": torch.__version__,
    }))


if __name__ == "__main__":
    main()
