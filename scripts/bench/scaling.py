#!/usr/bin/env python3
"""A model of the time of one training step against processes and bandwidth, and what it predicts.

    step = compute + max(0, exchange - hidden)
    compute  = 6 P tokens / (N speed)                          P parameters, N processes
    exchange = 2 (N - 1) / N * P * bytes / bandwidth  +  2 buckets messages(N) latency
               messages: log2 N between GPUs (NCCL's trees), N - 1 between CPUs (Gloo)
    hidden   = share * compute                                 what the backward pass covers

Efficiency is compute / step: 1 means N times as fast as one process.

  scaling.py                                the tables of docs/scaling.md
  scaling.py --fit one.json several.json    speed, and the bandwidth that an exchange had, from `tril bench --json` alone
                                            and under `tril launch`
"""

import argparse
import json
import math
from pathlib import Path


class Machine:
    """One process: operations per second, bytes per second to the network, seconds per message."""

    def __init__(self, name, speed, bandwidth, latency, trees):
        self.name, self.speed, self.bandwidth, self.latency, self.trees = name, speed, bandwidth, latency, trees

    def messages(self, processes):
        return math.log2(processes) if self.trees else processes - 1


def step(machine, processes, parameters, tokens, bytes_per_number=4, bucket_bytes=25e6, hidden_share=0.6):
    """Seconds of compute and of exposed exchange; `tokens` of one step, of all processes together."""
    n = processes
    compute = 6 * parameters * tokens / (n * machine.speed)
    if n == 1:
        return compute, 0.0
    buckets = max(1.0, 4 * parameters / bucket_bytes)
    exchange = 2 * (n - 1) / n * parameters * bytes_per_number / machine.bandwidth
    exchange += 2 * buckets * machine.messages(n) * machine.latency
    return compute, max(0.0, exchange - hidden_share * compute)


def table(title, machine, parameters, tokens_per_process, counts, bytes_per_number=4):
    print(f"{title}: {machine.name}\n")
    print("| processes | tokens per step | compute | exposed | efficiency |\n| ---: | ---: | ---: | ---: | ---: |")
    for n in counts:
        compute, exposed = step(machine, n, parameters, tokens_per_process * n, bytes_per_number)
        share = compute / (compute + exposed)
        print(f"| {n} | {tokens_per_process * n:,} | {1e3 * compute:.1f} ms | {1e3 * exposed:.1f} ms | {100 * share:.0f} % |")
    print()


def fit(one, several):
    """What two measurements say about this machine."""
    alone, group = (json.loads(Path(path).read_text(encoding="utf-8")) for path in (one, several))
    parameters, tokens = group["parameters"], group["tokens_per_step"]
    n = group["processes"]
    alone_seconds, seconds = alone["step_seconds"]["median"], group["step_seconds"]["median"]
    print(f"one process     {1e3 * alone_seconds:.1f} ms, {6 * parameters * tokens / alone_seconds / 1e9:.1f} GFLOP/s")
    print(f"{n} processes     {1e3 * seconds:.1f} ms, {alone_seconds / seconds:.3f} of its speed")
    print(f"exchange        {1e3 * group['exchange_seconds']:.2f} ms for {group['bytes_per_step'] / 1e6:.1f} MB: "
          f"{group['bytes_per_step'] / group['exchange_seconds'] / 1e9:.2f} GB/s")
    print(f"exposed         {1e3 * group['exposed_seconds']:.2f} ms, {100 * group['exposed_seconds'] / seconds:.1f} % of a step")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", nargs=2, metavar="JSON")
    options = parser.parse_args()
    if options.fit:
        fit(*options.fit)
        return
    # Assumed, not measured: 40 % of 990 TFLOP/s in bf16. Links: 8 GPUs of one machine; 400 Gbit/s per GPU between them.
    counts = (8, 16, 32, 64, 128, 256, 512, 1024)
    fast = Machine("400 TFLOP/s per GPU, 40 GB/s per GPU, 10 us per message", 4e14, 40e9, 10e-6, trees=True)
    slow = Machine("400 TFLOP/s per GPU, 3 GB/s per GPU, 30 us per message", 4e14, 3e9, 30e-6, trees=True)
    table("GPT-2 124M, 64 windows of 1024 per GPU", fast, 124e6, 65536, counts)
    table("GPT-2 124M, 64 windows of 1024 per GPU", slow, 124e6, 65536, counts)
    table("GPT-2 124M, 64 windows of 1024 per GPU, gradients in bf16", slow, 124e6, 65536, counts, bytes_per_number=2)


if __name__ == "__main__":
    main()
